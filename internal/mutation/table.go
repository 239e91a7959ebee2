package main

import "slices"

// table is every mutation, in the order in which usage walks through the code: the rules first, then what stores and carries, the
// stages, and what stands at the edges.
func table() []mutation {
	return slices.Concat(
		timeRules(), quantityRules(), commitRules(), labelRules(), recordRules(), callRules(), buyerRules(),
		dynamodbTables(), sqliteTables(), queues(),
		stages(), submission(), calls(), machine(),
		writers(), imports(), books(), lifecycles(), registrations(), lambdas(), metrics(),
	)
}

// rules are the tests of the rules: pure, and so the cheapest.
func rules() []suite {
	return quick("./internal/metering", "TestEveryOrderEndsTheSame", "TestRandomLivesEndTheSame", "TestCallsStayBelowTheLimits")
}

// rulesAnd are the tests of the rules, and all of some other packages.
func rulesAnd(others ...string) []suite { return slices.Concat(rules(), packages(others...)) }
