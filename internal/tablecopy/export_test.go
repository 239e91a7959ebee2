package tablecopy

// For tests in virtual time.
var (
	Patiently = patiently
	Take      = take
)
