module volley

go 1.26.0
