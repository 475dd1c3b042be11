module goelements

go 1.23
