package netplay

// Marshal returns the body of a message: the values of the properties of v one after
// another. v is a struct or a pointer to one.
//
// The error is a *[ValueError] for
//
//   - a type that cannot be a message,
//   - a string or array too long for its count,
//   - a string that is not valid UTF-8,
//   - a nil pointer to a number, bool or string,
//   - structs nested deeper than 64 levels.
func Marshal(v any) ([]byte, error) { return Append(nil, v) }

// Append appends to dst the body that [Marshal] returns. After an error it returns dst as
// it was. It does not allocate if dst has room and v is a pointer.
func Append(dst []byte, v any) ([]byte, error) {
	pl, p := recentOf(v)
	if p == nil {
		return defaults.appendBody(dst, v)
	}
	out, err := appendStruct(dst, p, pl, defaultDepth) // as appendBody, but faster
	if err != nil {
		return dst, valueError(pl.typ, err)
	}
	return out, nil
}

// Unmarshal reads a body into the struct that v points to. It sets all properties; all memory behind them is new. It ignores bytes after the last property,
// so that messages can grow at the end.
//
// The error is a *[ValueError] if the type cannot be a message, or a *[DecodeError] if the
// body does not fit the type or takes more than 1 MiB; then v is set in part.
func Unmarshal(body []byte, v any) error {
	pl, p := recentOf(v)
	if p == nil {
		return defaults.decodeBody(body, v)
	}
	d := decoder{budget: defaultDecoded, depth: defaultDepth}
	if err := d.structBody(body, p, pl); err != nil {
		return decodeError(pl.typ, err)
	}
	return nil
}

func (s *settings) appendBody(dst []byte, v any) ([]byte, error) {
	pl, p, err := structOf(v)
	if err != nil {
		return dst, err
	}
	return s.appendPlanned(dst, p, pl)
}

func (s *settings) decodeBody(body []byte, v any) error {
	pl, p, err := targetOf(v)
	if err != nil {
		return err
	}
	return s.decodePlanned(body, p, pl)
}

func (s *settings) appendPlanned(dst []byte, p addr, pl *plan) ([]byte, error) {
	out, err := appendStruct(dst, p, pl, s.maxDepth)
	if err != nil {
		return dst, valueError(pl.typ, err)
	}
	return out, nil
}

func (s *settings) decodePlanned(body []byte, p addr, pl *plan) error {
	d := decoder{budget: s.maxDecoded, depth: s.maxDepth}
	if err := d.structBody(body, p, pl); err != nil {
		return decodeError(pl.typ, err)
	}
	return nil
}
