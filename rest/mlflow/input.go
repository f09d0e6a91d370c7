package mlflow

import (
	"fmt"
	"net/http"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/tracking"
)

type runInputs struct {
	Datasets []datasetInput `json:"dataset_inputs,omitempty"`
}

type datasetInput struct {
	Tags    []keyValue `json:"tags,omitempty"`
	Dataset dataset    `json:"dataset"`
}

type dataset struct {
	Name       string `json:"name"`
	Digest     string `json:"digest"`
	SourceType string `json:"source_type"`
	Source     string `json:"source"`
	Schema     string `json:"schema,omitempty"`
	Profile    string `json:"profile,omitempty"`
}

func inputsOf(inputs []tracking.Input) runInputs {
	var of runInputs
	for _, in := range inputs {
		of.Datasets = append(of.Datasets, datasetInput{keyValues(in.Tags), dataset(in.Dataset)})
	}
	return of
}

// loggedInput is a dataset of a request with its tags.
type loggedInput struct {
	Tags    list[tag]
	Dataset loggedDataset
}

func (l *loggedInput) field(name []byte) value {
	switch string(name) {
	case "tags":
		return &l.Tags
	case "dataset":
		return &l.Dataset
	}
	return nil
}

type loggedDataset struct {
	Name, Digest, SourceType, Source, Schema, Profile text
	bad
}

func (d *loggedDataset) field(name []byte) value {
	switch string(name) {
	case "name":
		return &d.Name
	case "digest":
		return &d.Digest
	case "source_type":
		return &d.SourceType
	case "source":
		return &d.Source
	case "schema":
		return &d.Schema
	case "profile":
		return &d.Profile
	}
	return nil
}

func (d *loggedDataset) read(raw []byte) {
	if !readRecord(d, raw) {
		d.reject(raw)
	}
}

func (d *loggedDataset) query([]string) {} // a query has no records

func (d *loggedDataset) given() bool { return true }

// input returns the dataset; at is its place in the request.
func (l *loggedInput) input(at string) (tracking.Input, error) {
	d, of := &l.Dataset, at+".dataset."
	err := check(may(at+".dataset", d), need(of+"name", &d.Name), need(of+"digest", &d.Digest), need(of+"source_type", &d.SourceType), need(of+"source", &d.Source),
		may(of+"schema", &d.Schema), may(of+"profile", &d.Profile), may(at+".tags", &l.Tags))
	if err != nil {
		return tracking.Input{}, err
	}
	in := tracking.Input{Dataset: tracking.Dataset{
		Name: d.Name.s, Digest: d.Digest.s, SourceType: d.SourceType.s, Source: d.Source.s, Schema: d.Schema.s, Profile: d.Profile.s,
	}}
	in.Tags, err = pairsOf(at+".tags", l.Tags)
	return in, err
}

// anything is an object whose fields are not read.
type anything struct{}

func (*anything) field([]byte) value { return nil }

func (f *face) logInputs(c *call) error {
	var datasets list[loggedInput]
	var models list[anything]
	id, err := c.readRun(may("datasets", &datasets), may("models", &models))
	if err == nil {
		err = validRunID(id)
	}
	if err != nil {
		return err
	}
	if len(models.items) > 0 {
		return refuse(http.StatusNotFound, endpointNotFound, "This server does not have logged models; log datasets only.")
	}
	inputs := make([]tracking.Input, len(datasets.items))
	for i := range datasets.items {
		if inputs[i], err = datasets.items[i].input(fmt.Sprintf("datasets[%d]", i)); err != nil {
			return err
		}
	}
	if err := f.Runs.LogInputs(c.Context(), c.scope, "", id, inputs); err != nil {
		return ofRun(err, id)
	}
	return c.done()
}

// maxSearched bounds the experiments whose datasets a request lists.
const maxSearched = 20

func (f *face) searchDatasets(c *call) error {
	var sent texts
	if err := c.read(may("experiment_ids", &sent)); err != nil {
		return err
	}
	switch n := len(sent.items); {
	case n == 0:
		return refuse(http.StatusBadRequest, invalidParameter, "SearchDatasets request must specify at least one experiment_id.")
	case n > maxSearched:
		return refuse(http.StatusBadRequest, invalidParameter, "SearchDatasets request cannot specify more than %d experiment_ids. Received %d experiment_ids.", maxSearched, n)
	}
	ids, err := experimentIDs(sent)
	if err != nil {
		return err
	}
	found, err := f.Runs.Datasets(c.Context(), c.scope, ids)
	if err != nil {
		return err
	}
	type summary struct {
		Experiment domain.ExperimentID `json:"experiment_id"`
		Name       string              `json:"name"`
		Digest     string              `json:"digest"`
		Context    string              `json:"context,omitempty"`
	}
	page := struct {
		Summaries []summary `json:"dataset_summaries,omitempty"`
	}{make([]summary, len(found))}
	for i, d := range found {
		page.Summaries[i] = summary(d)
	}
	return c.answer(page)
}
