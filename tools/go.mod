module volley/tools

go 1.26.0
