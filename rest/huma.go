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
)

// What huma does otherwise than our contract is changed here, once. Its settings are variables of its package.
func init() {
	huma.NewError = validationError
	huma.NewErrorWithContext = func(_ huma.Context, status int, message string, errs ...error) huma.StatusError {
		return validationError(status, message, errs...)
	}
	huma.ValidateStrictCasing = true  // "Name" is not "name"
	huma.DefaultArrayNullable = false // an empty array is []
}

// validationError makes the error that huma answers with by itself: input that does not fit its schema.
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

// maxComplaints bounds how many faults of one request are told at once.
const maxComplaints = 5

// required is how huma begins a complaint about a field that is missing; its location is that of the object.
var required, _, _ = strings.Cut(validation.MsgExpectedRequiredProperty, "%s")

// complaint is one fault of the input as a sentence that names the field.
func complaint(err error) string {
	detail, ok := err.(huma.ErrorDetailer)
	if !ok {
		return err.Error()
	}
	d := detail.ErrorDetail()
	where := shorten(field(d.Location))
	switch {
	case d.Message == validation.MsgUnexpectedProperty:
		return fmt.Sprintf("There is no field %q here; leave it out.", where)
	case strings.HasPrefix(d.Message, required):
		name, _, _ := strings.Cut(strings.TrimPrefix(d.Message, required), " ")
		return fmt.Sprintf("The field %q is required.", join(where, name))
	case strings.HasPrefix(d.Message, "required "):
		return fmt.Sprintf("The parameter %q is required.", where)
	case where == "":
		return "The body is wrong: " + shorten(d.Message) + "."
	}
	return fmt.Sprintf("The value of %q is wrong: %s.", where, shorten(d.Message))
}

// field is huma's location, such as body.tasks[0].key, without the part of the request it is in.
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

// jsonFormat writes bodies without an end of line, and reads those that readBody has found sound.
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
	if isNumber && kind == "number" { // its schema has found it whole
		//lint:ignore ST1005 it is shown to people
		return fmt.Errorf("The value of %q must be a whole number in plain digits, not %s.", wrong.Field, shorten(digits))
	}
	//lint:ignore ST1005 it is shown to people
	return fmt.Errorf("The value of %q cannot be of the type %s.", wrong.Field, kind)
}
