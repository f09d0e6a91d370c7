package duckdb

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"

	duckdb "github.com/duckdb/duckdb-go-bindings"

	"github.com/millpond/millpond/agent/engine/sqltext"
)

// bind binds the parameters to a prepared statement. They never become part of its text.
func bind(statement duckdb.PreparedStatement, parameters []json.RawMessage) error {
	wanted := int(duckdb.NParams(statement))
	if wanted != len(parameters) {
		return sqltext.Refuse(-1, "The statement has %d parameters, but %d were given. Give one value for each of $1, $2 and so on, or for each ?.", wanted, len(parameters))
	}
	for i, p := range parameters {
		index, err := parameterIndex(statement, i+1)
		if err != nil {
			return err
		}
		if err := bindOne(statement, index, p); err != nil {
			return err
		}
	}
	return nil
}

// parameterIndex refuses named parameters and gaps in the numbering, such as $3 without $2.
func parameterIndex(statement duckdb.PreparedStatement, number int) (duckdb.IdxT, error) {
	var index duckdb.IdxT
	if duckdb.BindParameterIndex(statement, &index, fmt.Sprint(number)) != duckdb.StateSuccess {
		return 0, sqltext.Refuse(-1, "The statement has no parameter $%d. Number its parameters from $1 without gaps, or write each as ?.", number)
	}
	return index, nil
}

func bindOne(statement duckdb.PreparedStatement, index duckdb.IdxT, p json.RawMessage) error {
	p = bytes.TrimSpace(p)
	value, err := valueOf(p)
	if err != nil {
		return sqltext.Refuse(-1, "Parameter $%d is %s: give null, a boolean, a number or a string.", index, sqltext.Cut(string(p), 40))
	}
	defer duckdb.DestroyValue(&value)
	if duckdb.BindValue(statement, index, value) != duckdb.StateSuccess {
		return sqltext.Refuse(-1, "Parameter $%d cannot be %s: %s.", index, sqltext.Cut(string(p), 40), duckdb.PrepareError(statement))
	}
	return nil
}

// valueOf converts a JSON value to DuckDB's. A number keeps all its digits: it becomes a BIGINT, a
// HUGEINT or a DECIMAL. With an exponent it becomes a DOUBLE.
func valueOf(p json.RawMessage) (duckdb.Value, error) {
	d := json.NewDecoder(bytes.NewReader(p))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return duckdb.Value{}, err
	}
	switch v := v.(type) {
	case nil:
		return duckdb.CreateNullValue(), nil
	case bool:
		return duckdb.CreateBool(v), nil
	case string:
		return duckdb.CreateVarcharLength(v, duckdb.IdxT(len(v))), nil
	case json.Number:
		return numberOf(v)
	}
	return duckdb.Value{}, fmt.Errorf("%T is no parameter", v)
}

func numberOf(n json.Number) (duckdb.Value, error) {
	text := n.String()
	if strings.ContainsAny(text, "eE") {
		f, err := n.Float64()
		return duckdb.CreateDouble(f), err
	}
	if i, err := n.Int64(); err == nil {
		return duckdb.CreateInt64(i), nil
	}
	whole, fraction, _ := strings.Cut(text, ".")
	digits, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok {
		return duckdb.Value{}, fmt.Errorf("%s is no number", text)
	}
	significant := max(len(new(big.Int).Abs(digits).String()), len(fraction))
	if significant > 38 {
		// The statement casts the string to the type that it needs, without losing a digit.
		return duckdb.CreateVarcharLength(text, duckdb.IdxT(len(text))), nil
	}
	if fraction == "" {
		return duckdb.CreateHugeInt(hugeOf(digits)), nil
	}
	return duckdb.CreateDecimal(duckdb.NewDecimal(uint8(significant), uint8(len(fraction)), hugeOf(digits))), nil
}

func hugeOf(i *big.Int) duckdb.HugeInt {
	low := new(big.Int).And(i, new(big.Int).SetUint64(^uint64(0)))
	high := new(big.Int).Rsh(i, 64)
	return duckdb.NewHugeInt(low.Uint64(), high.Int64())
}
