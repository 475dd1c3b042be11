module gopointers

go 1.23
