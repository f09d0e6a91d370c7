package duckdb

/*
#include <stdint.h>

// The driver compiles its own use of these functions only under a build tag. The handles are
// pointers in DuckDB's C API.
extern void *duckdb_to_arrow_schema(void *options, void **types, const char **names, uint64_t columns, void *schema);
extern void *duckdb_data_chunk_to_arrow(void *options, void *chunk, void *array);
*/
import "C"

import (
	"errors"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/cdata"
	duckdb "github.com/duckdb/duckdb-go-bindings"
)

// arrowSchema returns DuckDB's Arrow schema for columns.
func arrowSchema(options duckdb.ArrowOptions, types []duckdb.LogicalType, names []string) (*arrow.Schema, error) {
	if len(types) == 0 {
		return arrow.NewSchema(nil, nil), nil
	}
	handles := make([]unsafe.Pointer, len(types))
	texts := make([]*C.char, len(types))
	for i := range types {
		handles[i] = types[i].Ptr
		text := C.CString(names[i])
		defer duckdb.Free(unsafe.Pointer(text))
		texts[i] = text
	}
	var out cdata.CArrowSchema
	failed := C.duckdb_to_arrow_schema(options.Ptr, &handles[0], &texts[0], C.uint64_t(len(types)), unsafe.Pointer(&out))
	defer cdata.ReleaseCArrowSchema(&out)
	if err := fromErrorData(failed); err != nil {
		return nil, err
	}
	return cdata.ImportCArrowSchema(&out)
}

// arrowBatch converts a chunk to a record batch. The caller releases it.
func arrowBatch(options duckdb.ArrowOptions, schema *arrow.Schema, chunk duckdb.DataChunk) (arrow.RecordBatch, error) {
	var out cdata.CArrowArray
	failed := C.duckdb_data_chunk_to_arrow(options.Ptr, chunk.Ptr, unsafe.Pointer(&out))
	if err := fromErrorData(failed); err != nil {
		return nil, err
	}
	return cdata.ImportCRecordBatchWithSchema(&out, schema)
}

func fromErrorData(p unsafe.Pointer) error {
	data := duckdb.ErrorData{Ptr: p}
	defer duckdb.DestroyErrorData(&data)
	if p == nil || !duckdb.ErrorDataHasError(data) {
		return nil
	}
	return errors.New(duckdb.ErrorDataMessage(data))
}
