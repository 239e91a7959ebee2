package usagefile

import "strings"

// closest is the known name that a misspelt one is nearest to, or none where nothing is near. Case and separators do not
// count, so customer_aws_account_id is customerAWSAccountId.
func closest(name string, known []string) string {
	plain := strings.NewReplacer("_", "", "-", "", " ", "").Replace
	name = strings.ToLower(plain(name))
	if len(name) > 60 {
		return ""
	}
	best, least := "", max(2, len(name)/3)+1
	for _, k := range known {
		if d := distance(name, strings.ToLower(plain(k))); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is how many letters have to be put in, taken out or changed to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := diagonal
			if a[i-1] != b[j-1] {
				change++
			}
			diagonal = row[j]
			row[j] = min(change, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
