// Package verify is the list of things to try by hand after a deployment, as a program: it writes usage of invented licenses into the
// tables of a stack, waits until the stack's own schedules have acted on it, and compares what became of each item with what should have.
// Nothing here runs a stage: what is verified is what was deployed.
//
// All of a run's usage stands under the few licenses of Licenses, so that whatever a killed run has left is found by a query; each item
// bears the run's id in Mark, and what the pipeline makes of it bears the id in its dimension.
package verify
