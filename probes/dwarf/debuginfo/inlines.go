package debuginfo

type unitFunctions struct{}
