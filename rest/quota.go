package rest

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/quota"
)

// Quota is a limit of the workspace and its current use.
type Quota struct {
	Name        string `json:"name" example:"max_running_runs"`
	Unit        string `json:"unit" enum:"count,bytes"`
	Limit       int64  `json:"limit"`
	Default     int64  `json:"default" doc:"The limit of a workspace without one of its own."`
	Current     int64  `json:"current"`
	Description string `json:"description" doc:"What it counts."`
}

// QuotaChange sets a quota's limit.
type QuotaChange struct {
	Limit *int64 `json:"limit" nullable:"true" doc:"A limit below the current use stops nothing that runs. null stands for the default."`
}

func showQuota(q quota.Quota) Quota {
	return Quota{Name: string(q.Name), Unit: string(q.Unit), Limit: q.Limit, Default: q.Default, Current: q.Current, Description: q.Description}
}

func (a *api) quotaRoutes() {
	const tag = "Quotas"
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/settings/quotas", OperationID: "list-quotas", Tags: []string{tag}, Summary: "List quotas with their current use",
		Description: "Decided here: max_running_runs and max_endpoints are 10 by default.",
	}, a.listQuotas)
	operate(a, huma.Operation{
		Method: http.MethodPatch, Path: "/settings/quotas/{name}", OperationID: "update-quota", Tags: []string{tag}, Summary: "Set a quota's limit",
	}, a.updateQuota)
}

func (a *api) listQuotas(ctx context.Context, s domain.Scope, in *PageQuery) (*answer[List[Quota]], error) {
	quotas, err := a.Quotas.List(ctx, s)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(quotas, func(a, b quota.Quota) int { return strings.Compare(string(a.Name), string(b.Name)) })
	page, err := cut(quotas, in.page(), func(q quota.Quota) string { return string(q.Name) })
	if err != nil {
		return nil, err
	}
	return list(page, showQuota), nil
}

func (a *api) updateQuota(ctx context.Context, s domain.Scope, in *struct {
	Name string `path:"name" doc:"The quota's name." example:"max_running_runs"`
	Body QuotaChange
},
) (*answer[Quota], error) {
	q, err := a.Quotas.Update(ctx, s, quota.Name(in.Name), in.Body.Limit)
	if err != nil {
		return nil, err
	}
	return &answer[Quota]{showQuota(q)}, nil
}
