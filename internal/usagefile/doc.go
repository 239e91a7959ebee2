// Package usagefile reads usage from files: CSV with a header row, or NDJSON with one object a line. It reads one line at a
// time, keeps every line that can become a row exactly as it was written, and refuses the others one by one with a reason.
//
// A line that can become a row but breaks a rule of metering (a quantity of 2.5, allocations that do not add up) is kept: such
// a row is rejected by name where the rules live, and the books show it.
package usagefile
