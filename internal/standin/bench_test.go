package standin_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/awsmp/metering/internal/standin"
)

// BenchmarkPut writes small items under parallel load: what volume a test may ask for.
func BenchmarkPut(b *testing.B) {
	for name, start := range map[string]func(testing.TB) string{"moto": standin.Moto, "dynalite": standin.Dynalite} {
		b.Run(name, func(b *testing.B) {
			c := newTables(b, start(b), "bench")
			var n atomic.Int64
			b.SetParallelism(8)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := c.put(b, item{"s": str(fmt.Sprint(n.Add(1)))}); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "puts/s")
		})
	}
}

// BenchmarkMessage sends, receives and deletes messages, ten a call.
func BenchmarkMessage(b *testing.B) {
	for name, start := range map[string]func(testing.TB) string{"moto": standin.Moto, "fauxqs": standin.Fauxqs} {
		b.Run(name, func(b *testing.B) {
			c := newQueues(start(b))
			made, err := c.CreateQueue(b.Context(), &sqs.CreateQueueInput{QueueName: aws.String(unique("bench"))})
			if err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			for i := 0; i < b.N; i += 10 {
				if err := c.tenThrough(b, made.QueueUrl); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}
