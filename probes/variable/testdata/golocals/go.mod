module govars

go 1.23
