package engine

import (
	"testing"
)

func BenchmarkSelectOne(b *testing.B) {
	s := serve(b, nil)
	s.ok("SELECT 1")
	for b.Loop() {
		s.ok("SELECT 1")
	}
}

func BenchmarkChildStart(b *testing.B) {
	s := serve(b, nil)
	for b.Loop() {
		p, err := startProcess(s.engine.o, s.engine.pool.extensions)
		if err != nil {
			b.Fatal(err)
		}
		<-p.ready
		if p.failure != nil {
			b.Fatal(p.failure)
		}
		p.end()
	}
}

const million = `SELECT i AS a, i * 2 AS b, i::DOUBLE / 3 AS c, 'row ' || i AS d, i % 7 AS e, DATE '2020-01-01' + (i % 1000)::INTEGER AS f, i % 2 = 0 AS g, (i % 1000)::DECIMAL(18, 2) AS h FROM range(1000000) t(i)`

func BenchmarkMillionRows(b *testing.B) {
	s := serve(b, nil)
	s.ok("SELECT 1")
	for b.Loop() {
		s.ok(million)
	}
}
