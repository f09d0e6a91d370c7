package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"github.com/millpond/millpond/rest/httpx"
)

// huma's behaviour that differs from our contract is changed here. Its settings are package
// variables.
func init() {
	huma.NewError = validationError
	huma.NewErrorWithContext = func(_ huma.Context, status int, message string, errs ...error) huma.StatusError {
		return validationError(status, message, errs...)
	}
	huma.ValidateStrictCasing = true  // "Name" is not "name"
	huma.DefaultArrayNullable = false // an empty array is []
}

// validationError replaces huma's own errors for input that does not match its schema.
func validationError(status int, message string, errs ...error) huma.StatusError {
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	sentences := make([]string, 0, len(errs))
	for _, err := range errs {
		sentences = append(sentences, complaint(err))
	}
	slices.Sort(sentences)
	sentences = slices.Compact(sentences)
	if rest := len(sentences) - maxComplaints; rest > 0 {
		sentences = append(sentences[:maxComplaints], fmt.Sprintf("And %d more.", rest))
	}
	if len(sentences) == 0 {
		sentences = []string{strings.ToUpper(message[:min(1, len(message))]) + message[min(1, len(message)):] + "."}
	}
	return newError(status, strings.Join(sentences, " "))
}

// maxComplaints bounds the errors of one request that are reported at once.
const maxComplaints = 5

// required is how huma's message for a missing field begins. Its location is the object's.
var required, _, _ = strings.Cut(validation.MsgExpectedRequiredProperty, "%s")

// complaint returns one error of the input as a sentence that names the field.
func complaint(err error) string {
	detail, ok := err.(huma.ErrorDetailer)
	if !ok {
		return err.Error()
	}
	d := detail.ErrorDetail()
	where := httpx.Shorten(field(d.Location))
	switch {
	case d.Message == validation.MsgUnexpectedProperty:
		return fmt.Sprintf("There is no field %q here; leave it out.", where)
	case strings.HasPrefix(d.Message, required):
		name, _, _ := strings.Cut(strings.TrimPrefix(d.Message, required), " ")
		return fmt.Sprintf("The field %q is required.", join(where, name))
	case strings.HasPrefix(d.Message, "required "):
		return fmt.Sprintf("The parameter %q is required.", where)
	case where == "" && strings.HasSuffix(d.Message, "."): // of unmarshal
		return d.Message
	case where == "":
		return "The body is wrong: " + strings.TrimSuffix(httpx.Shorten(d.Message), ".") + "."
	}
	return fmt.Sprintf("The value of %q is wrong: %s.", where, httpx.Shorten(d.Message))
}

// field returns huma's location, such as body.tasks[0].key, without the part of the request.
func field(location string) string {
	part, name, _ := strings.Cut(location, ".")
	switch part {
	case "body", "query", "path", "header":
		return name
	}
	return location
}

func join(object, name string) string {
	if object == "" {
		return name
	}
	return object + "." + name
}

// jsonFormat writes bodies without a line end, and reads bodies that readBody has validated.
var jsonFormat = huma.Format{
	Marshal:   func(w io.Writer, v any) error { return writeJSON(w, v) },
	Unmarshal: unmarshal,
}

func unmarshal(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err
	}
	kind, digits, isNumber := strings.Cut(wrong.Value, " ")
	if isNumber && kind == "number" { // the schema has checked that it is a whole number
		//lint:ignore ST1005 it is shown to people
		return fmt.Errorf("The value of %q must be a 64-bit whole number in plain digits, not %s.", wrong.Field, httpx.Shorten(digits))
	}
	//lint:ignore ST1005 it is shown to people
	return fmt.Errorf("The value of %q cannot be of the type %s.", wrong.Field, kind)
}
