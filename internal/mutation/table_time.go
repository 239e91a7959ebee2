package main

func timeRules() []mutation {
	return in("internal/metering/window.go", rules(),
		mutation{
			name:   "the window includes its end",
			old:    "return now.Add(billableMargin).Before(r.Deadline(h))",
			new:    "return !now.Add(billableMargin).After(r.Deadline(h))",
			breaks: "A record is sent at the instant at which the service begins to refuse it, and its whole call is refused with it.",
		},
		mutation{
			name:   "no margin to the service's clock",
			old:    "return now.Add(billableMargin).Before(r.Deadline(h))",
			new:    "return now.Before(r.Deadline(h))",
			breaks: "A record is sent in the last seconds of its hour, arrives too late and spoils the call of up to 24 others.",
		},
		mutation{
			name:   "the month before never closes",
			old:    "return month.Add(monthGrace)",
			new:    "return end",
			breaks: "After 06:00 on the 1st usage of the month before is sent and refused, call after call, and is never named as expired.",
		},
		mutation{
			name:   "the grace tail ends an hour early",
			old:    "monthGrace = 6 * time.Hour",
			new:    "monthGrace = 5 * time.Hour",
			breaks: "Usage of the month's last day that could be billed until 06:00 on the 1st is given up at 05:00.",
		},
		mutation{
			name:   "an hour expires at its deadline",
			old:    "return !now.Before(r.Deadline(h).Add(expiryDelay))",
			new:    "return !now.Before(r.Deadline(h))",
			breaks: "Usage is named as expired while a call that began in time still bills it.",
		},
		mutation{
			name:   "the lock stays shut at month end",
			old:    "if !now.Before(month.Add(monthUnlock)) && now.Before(month.Add(monthGrace)) {",
			new:    "if now.After(month.Add(monthGrace)) {",
			breaks: "With a long lock the last hours of the month are still locked when 06:00 comes, and are never billed.",
		},
		mutation{
			name:   "the lock is an hour longer than its setting",
			old:    "return h.Offset(now) >= max(MinOffset, r.Lock(h, now)) && r.Billable(h, now)",
			new:    "return h.Offset(now) > max(MinOffset, r.Lock(h, now)) && r.Billable(h, now)",
			breaks: "Each hour is metered an hour later than set, and with the longest lock hardly a try is left.",
		},
		mutation{
			name:   "a locked hour is visited",
			old:    "return h.Offset(now) >= max(MinOffset, r.Lock(h, now)) && r.Billable(h, now)",
			new:    "return h.Offset(now) >= MinOffset && r.Billable(h, now)",
			breaks: "An hour that its seller holds open is committed at once, and what is still written to it is late and never billed.",
		},
		mutation{
			name:   "discovery forgets the grace tail",
			old:    "if offset == MaxOffset {",
			new:    "if offset > MaxOffset {",
			breaks: "Usage of the month's last day that is older than 24 hours on the 1st is never aggregated, though it could be billed.",
		},
		mutation{
			name:   "the grace tail is an hour short",
			old:    "for offset := 24 + int(monthGrace/time.Hour); offset >= 24; offset-- {",
			new:    "for offset := 22 + int(monthGrace/time.Hour); offset >= 24; offset-- {",
			breaks: "The first hour of the month's last day is not visited in its last hour on the 1st.",
		},
		mutation{
			name:   "the newest complete hour is not submitted",
			old:    "for offset := MaxOffset; offset >= MinOffset; offset-- {",
			new:    "for offset := MaxOffset; offset > MinOffset; offset-- {",
			breaks: "A license in its last hour loses what it used in the hour before, which nobody sends in time.",
		},
		mutation{
			name: "the flush of a last hour honours the lock",
			old:  "hours := append(r.GraceTail(now), r.SubmitHours(now)...)",
			new: `hours := r.GraceTail(now)
	for _, h := range r.SubmitHours(now) {
		if r.Visitable(h, now) {
			hours = append(hours, h)
		}
	}`,
			breaks: "A license that leaves is billed for nothing of the hours that are still locked when its window closes.",
		},
		mutation{
			name: "the flush of a last hour forgets the hour in progress",
			old: `	if closing {
		hours = append(hours, HourOf(now))
	}
`,
			new:    "",
			breaks: "What a buyer uses in the minutes before the license closes is never billed.",
		},
		mutation{
			name:   "the hour just over is flushed at once",
			old:    "if n := len(hours); n > 0 && hours[n-1].Offset(now) == 1 && !closing &&",
			new:    "if n := len(hours); n > 0 && hours[n-1].Offset(now) == 0 && !closing &&",
			breaks: "The hour is committed while the writers' buffers still hold usage of it, which is late then.",
		},
		mutation{
			name:   "a zero is committed at the first visit",
			old:    "return h.Offset(now) >= int(r.window()/time.Hour)-1",
			new:    "return h.Offset(now) >= MinOffset",
			breaks: "A 0 that is sent early owns the hour, and the usage that comes after it is refused as a duplicate.",
		},
		mutation{
			name:   "a zero of the month before is committed at midnight",
			old:    "return !now.Before(month.Add(lastMonthSweep))",
			new:    "return !now.Before(month)",
			breaks: "A 0 owns the month's last hours six hours before they close, and usage that is written until then is refused.",
		},
		mutation{
			name:   "sweeps forget the older slice",
			old:    "for back := Hour(MinOffset); back <= sweepReach; back = older(back) {",
			new:    "for back := Hour(MinOffset); back <= sweepEveryRun; back = older(back) {",
			breaks: "What is older than three days waits for ever and is never named as lost.",
		},
		mutation{
			name:   "sweeps end a living hour",
			old:    "if h := current - back; r.Expirable(h, now) && !yield(h) {",
			new:    "if h := current - back; back >= MaxOffset && !yield(h) {",
			breaks: "Usage of the grace tail is ended as expired while it can still be billed.",
		},
	)
}
