module goshapes

go 1.23
