package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
)

// Member is a user's place in the workspace: invited, until it is accepted.
type Member struct {
	ID        string `json:"id" doc:"Of the user."`
	Email     string `json:"email"`
	Name      string `json:"name"`
	Role      string `json:"role" enum:"viewer,editor,admin"`
	CreatedAt Time   `json:"created_at" doc:"When the user was first invited, or came by the operator's link."`

	AcceptedAt *Time `json:"accepted_at,omitempty" doc:"When the user accepted. Absent for who is invited only: until then the membership opens nothing."`
}

// AddedMember is somebody invited, with the one-time token by which they accept.
type AddedMember struct {
	Member
	SetupToken string `json:"setup_token" doc:"Shown once: by /setup?token=… the user accepts within a week, with the password of the account or setting a first one."`
}

// NewMember is who is invited.
type NewMember struct {
	Email string `json:"email" example:"ada@example.com"`
	Name  string `json:"name,omitempty"`
	Role  string `json:"role" enum:"viewer,editor,admin"`
}

// MemberChange changes a member's role.
type MemberChange struct {
	Role string `json:"role" enum:"viewer,editor,admin"`
}

// MemberPath is the path of what concerns one member.
type MemberPath struct {
	ID string `path:"id" doc:"The user's id."`
}

func showMember(m domain.Member) Member {
	return Member{ID: string(m.User.ID), Email: m.User.Email, Name: m.User.Name, Role: string(m.Role), CreatedAt: Time(m.CreatedAt), AcceptedAt: optionalTime(m.AcceptedAt)}
}

func (a *api) memberRoutes() {
	const tag = "Members"
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/settings/members", OperationID: "list-members", Tags: []string{tag}, Summary: "List members, in the order in which their accounts were made",
	}, a.listMembers)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: "/settings/members", OperationID: "add-member", Tags: []string{tag}, DefaultStatus: http.StatusCreated,
		Summary: "Invite somebody to become a member", Errors: []int{http.StatusConflict},
		Description: "The answer has a one-time token, whether the e-mail has an account or not; the membership opens nothing before it is used. For who is invited already it is a new one, " +
			"in place of the one before, with the role given now. Who has accepted is 409.",
	}, a.addMember)
	operate(a, huma.Operation{
		Method: http.MethodPatch, Path: "/settings/members/{id}", OperationID: "update-member", Tags: []string{tag},
		Summary: "Change a member's role", Description: "At once, also for sessions that are open. The last admin who has accepted stays one: 409.", Errors: []int{http.StatusConflict},
	}, a.updateMember)
	operate(a, huma.Operation{
		Method: http.MethodDelete, Path: "/settings/members/{id}", OperationID: "remove-member", Tags: []string{tag},
		Summary: "End a membership", Description: "The member's sessions, keys and links in this workspace end with it. The last admin who has accepted stays: 409.", Errors: []int{http.StatusConflict},
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
