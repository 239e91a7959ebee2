package metering

import "time"

// How a record's wait ends. Who may overwrite whom: Success is written whenever the item holds the quantity that was sent
// and is not Success yet, whatever else it says; every other verdict only while the record still waits, exactly as it was
// judged, and never over Success.

// FinishWith is the write for a verdict of the service. ttl is how long a billed record is kept, 0 for ever.
func FinishWith(v Verdict, ttl time.Duration, now time.Time) Finish {
	f := Finish{
		License: v.Record.License, SortKey: v.Record.SortKey,
		Pending: true, Unbilled: true, Fingerprint: v.Record.Fingerprint(),
		Status: v.Status, Reason: v.Reason, MeteringRecordID: v.RecordID, At: now,
	}
	if v.Status == Success {
		f.Pending, f.Fingerprint, f.Quantity = false, "", v.Record.Quantity
		f.TTL = expiryOf(ttl, now)
		f.BilledQuantity = differing(v.Sent.Quantity, v.Record.Quantity)
	}
	return f
}

// FinishChanged is the write for a Success whose record holds another quantity by now: what was sent is billed, and the
// record says so; the rest is refused, since the hour is taken. ok is false where there is nothing to write.
func FinishChanged(v Verdict, current Record, ttl time.Duration, now time.Time) (f Finish, ok bool) {
	if v.Status != Success || current.Status == Success {
		return Finish{}, false
	}
	return Finish{
		License: current.License, SortKey: current.SortKey,
		Unbilled: true, Fingerprint: current.Fingerprint(),
		Status: Success, MeteringRecordID: v.RecordID, BilledQuantity: differing(v.Sent.Quantity, current.Quantity),
		TTL: expiryOf(ttl, now), At: now,
	}, true
}

// FinishBilled is the write for a record that waits although it is already billed: its seller changed it after Success. It
// is not sent; refused is what the change asked for and the hour can no longer take (F19).
func FinishBilled(r Record, now time.Time) (f Finish, refused int64, ok bool) {
	if r.Status != Success || r.Pending == "" {
		return Finish{}, 0, false
	}
	billed := r.BilledQuantity
	if !billed.Whole {
		billed = r.SentQuantity
	}
	if !billed.Whole {
		return Finish{}, 0, false
	}
	f = Finish{
		License: r.License, SortKey: r.SortKey, Pending: true, Fingerprint: r.Fingerprint(),
		Status: Success, BilledQuantity: differing(billed.N, r.Quantity), At: now,
	}
	q, _ := r.Quantity.Count()
	return f, max(0, q-billed.N), true
}

// FinishRejected is the write for a record that cannot be sent.
func FinishRejected(r Record, reason string, now time.Time) Finish {
	return Finish{
		License: r.License, SortKey: r.SortKey, Pending: true, Unbilled: true, Fingerprint: r.Fingerprint(),
		Status: RejectedClientSide, Reason: reason, At: now,
	}
}

// FinishExpired is the write for a record whose hour can no longer be billed. One that was sent and never answered is in
// doubt: it may be billed.
func FinishExpired(r Record, now time.Time) Finish {
	f := Finish{
		License: r.License, SortKey: r.SortKey, Pending: true, Unbilled: true, Fingerprint: r.Fingerprint(),
		Status: SubmissionExpired, At: now,
	}
	if r.SentQuantity.Whole {
		f.Reason = VerdictUnknown
	}
	return f
}

// FinishDryRun is the write for a record that a dry run would have sent.
func FinishDryRun(r Record, now time.Time) Finish {
	return Finish{
		License: r.License, SortKey: r.SortKey, Pending: true, Unbilled: true, Fingerprint: r.Fingerprint(),
		Status: DryRunSubmitted, At: now,
	}
}

func differing(billed int64, held Quantity) Quantity {
	if held == Units(billed) {
		return Quantity{}
	}
	return Units(billed)
}

func expiryOf(ttl time.Duration, now time.Time) Quantity {
	if ttl <= 0 {
		return Quantity{}
	}
	return Units(now.Add(ttl).Unix())
}
