package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/identity"
)

// Member is a user's membership of the workspace. It is an invitation until the user accepts it.
type Member struct {
	ID        string `json:"id" doc:"The user's id."`
	Email     string `json:"email"`
	Name      string `json:"name"`
	Role      string `json:"role" enum:"viewer,editor,admin"`
	CreatedAt Time   `json:"created_at" doc:"When the user was first invited, or joined by the operator's link."`

	AcceptedAt *Time `json:"accepted_at,omitempty" doc:"Absent until the invitation is accepted. Until then the membership grants nothing."`
}

// AddedMember is an invited member, with the one-time token of the invitation.
type AddedMember struct {
	Member
	SetupToken string `json:"setup_token" doc:"Shown once. At /setup?token=… the user accepts within a week, with the account's password or by setting a first one."`
}

// NewMember is the body of an invitation.
type NewMember struct {
	Email string `json:"email" example:"ada@example.com"`
	Name  string `json:"name,omitempty"`
	Role  string `json:"role" enum:"viewer,editor,admin"`
}

// MemberChange changes a member's role.
type MemberChange struct {
	Role string `json:"role" enum:"viewer,editor,admin"`
}

// MemberPath is the path of operations on one member.
type MemberPath struct {
	ID string `path:"id" doc:"The user's id."`
}

func showMember(m identity.Member) Member {
	return Member{ID: string(m.User.ID), Email: m.User.Email, Name: m.User.Name, Role: string(m.Role), CreatedAt: Time(m.CreatedAt), AcceptedAt: optionalTime(m.AcceptedAt)}
}

func (a *api) memberRoutes() {
	const tag = "Members"
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/settings/members", OperationID: "list-members", Tags: []string{tag}, Summary: "List members, in the order in which their accounts were created",
	}, a.listMembers)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: "/settings/members", OperationID: "add-member", Tags: []string{tag}, DefaultStatus: http.StatusCreated,
		Summary: "Invite a member", Errors: []int{http.StatusConflict},
		Description: "The answer has a one-time token, whether or not the e-mail has an account. The membership grants nothing until the token is used. Inviting somebody again " +
			"replaces the token and the role. 409 if the invitation was accepted already.",
	}, a.addMember)
	operate(a, huma.Operation{
		Method: http.MethodPatch, Path: "/settings/members/{id}", OperationID: "update-member", Tags: []string{tag},
		Summary: "Change a member's role", Description: "It applies at once, also to open sessions. 409 if no other admin has accepted an invitation.", Errors: []int{http.StatusConflict},
	}, a.updateMember)
	operate(a, huma.Operation{
		Method: http.MethodDelete, Path: "/settings/members/{id}", OperationID: "remove-member", Tags: []string{tag},
		Summary: "End a membership", Description: "The member's sessions, keys and links in this workspace end with it. 409 if no other admin has accepted an invitation.", Errors: []int{http.StatusConflict},
	}, a.removeMember)
}

func (a *api) listMembers(ctx context.Context, s domain.Scope, in *PageQuery) (*answer[List[Member]], error) {
	members, err := a.Members.List(ctx, s, in.page())
	if err != nil {
		return nil, err
	}
	return list(members, showMember), nil
}

func (a *api) addMember(ctx context.Context, s domain.Scope, in *struct{ Body NewMember }) (*answer[AddedMember], error) {
	member, token, err := a.Members.Add(ctx, s, in.Body.Email, in.Body.Name, domain.Role(in.Body.Role))
	if err != nil {
		return nil, err
	}
	return &answer[AddedMember]{AddedMember{Member: showMember(member), SetupToken: token}}, nil
}

func (a *api) updateMember(ctx context.Context, s domain.Scope, in *struct {
	MemberPath
	Body MemberChange
},
) (*answer[Member], error) {
	member, err := a.Members.Update(ctx, s, domain.UserID(in.ID), domain.Role(in.Body.Role))
	if err != nil {
		return nil, err
	}
	return &answer[Member]{showMember(member)}, nil
}

func (a *api) removeMember(ctx context.Context, s domain.Scope, in *MemberPath) (*nothing, error) {
	return nil, a.Members.Remove(ctx, s, domain.UserID(in.ID))
}
