// The tour of real_client_tour.py, by the Go SDK: tour URL VERSION PREFIX...
// Prints one line of JSON: what each step gave.
package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const stateless = "2026-07-28"

// told collects what the client is told outside its own calls.
type told struct {
	mu       sync.Mutex
	logs     []any
	progress [][]any
	updated  []string
	changed  map[string]bool
}

func (t *told) note(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
}

func (t *told) forget() {
	t.note(func() { t.logs, t.progress, t.updated, t.changed = nil, nil, nil, map[string]bool{} })
}

func (t *told) until(what string, condition func() bool) {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		t.mu.Lock()
		done := condition()
		t.mu.Unlock()
		if done {
			return
		}
	}
	log.Fatalf("nothing heard: %s", what)
}

func (t *told) options() *mcp.ClientOptions {
	return &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{
			RootsV2: &mcp.RootCapabilities{ListChanged: true},
			Elicitation: &mcp.ElicitationCapabilities{
				Form: &mcp.FormElicitationCapabilities{},
				URL:  &mcp.URLElicitationCapabilities{},
			},
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			content := &mcp.TextContent{Text: "not much"}
			return &mcp.CreateMessageResult{Role: "assistant", Content: content, Model: "model-1", StopReason: "endTurn"}, nil
		},
		ElicitationHandler: func(_ context.Context, request *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			if request.Params.Mode == "url" {
				return &mcp.ElicitResult{Action: "accept"}, nil
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
		},
		LoggingMessageHandler: func(_ context.Context, request *mcp.LoggingMessageRequest) {
			t.note(func() { t.logs = append(t.logs, request.Params.Data) })
		},
		ProgressNotificationHandler: func(_ context.Context, request *mcp.ProgressNotificationClientRequest) {
			p := request.Params
			t.note(func() { t.progress = append(t.progress, []any{p.Progress, p.Total, p.Message}) })
		},
		ResourceUpdatedHandler: func(_ context.Context, request *mcp.ResourceUpdatedNotificationRequest) {
			t.note(func() { t.updated = append(t.updated, request.Params.URI) })
		},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			t.note(func() { t.changed["tools"] = true })
		},
		PromptListChangedHandler: func(context.Context, *mcp.PromptListChangedRequest) {
			t.note(func() { t.changed["prompts"] = true })
		},
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) {
			t.note(func() { t.changed["resources"] = true })
		},
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

type tourist struct {
	ctx     context.Context
	session *mcp.ClientSession
	told    *told
}

func (t *tourist) call(name string, arguments any, meta mcp.Meta) (string, error) {
	params := &mcp.CallToolParams{Meta: meta, Name: name, Arguments: arguments}
	result, err := t.session.CallTool(t.ctx, params)
	if err != nil {
		return "", err
	}
	return result.Content[0].(*mcp.TextContent).Text, nil
}

func (t *tourist) text(name string) string { return must(t.call(name, nil, nil)) }

func (t *tourist) json(name string, arguments any) any {
	var value any
	if err := json.Unmarshal([]byte(must(t.call(name, arguments, nil))), &value); err != nil {
		log.Fatal(err)
	}
	return value
}

func (t *tourist) read(uri string) *mcp.ResourceContents {
	return must(t.session.ReadResource(t.ctx, &mcp.ReadResourceParams{URI: uri})).Contents[0]
}

func (t *tourist) complete(reference *mcp.CompleteReference) []string {
	argument := mcp.CompleteParamsArgument{Name: "name", Value: "x"}
	return must(t.session.Complete(t.ctx, &mcp.CompleteParams{Ref: reference, Argument: argument})).Completion.Values
}

func (t *tourist) lists() map[string]any {
	tools, prompts, resources, templates := []string{}, []string{}, []string{}, []string{}
	for tool, err := range t.session.Tools(t.ctx, nil) {
		if name := must(tool, err).Name; strings.HasSuffix(name, "_echo") {
			tools = append(tools, name)
		}
	}
	for prompt, err := range t.session.Prompts(t.ctx, nil) {
		prompts = append(prompts, must(prompt, err).Name)
	}
	for resource, err := range t.session.Resources(t.ctx, nil) {
		resources = append(resources, must(resource, err).URI)
	}
	for template, err := range t.session.ResourceTemplates(t.ctx, nil) {
		templates = append(templates, must(template, err).URITemplate)
	}
	for _, names := range [][]string{tools, prompts, resources, templates} {
		slices.Sort(names)
	}
	return map[string]any{"tools": tools, "prompts": prompts, "resources": resources, "templates": templates}
}

func (t *tourist) hasTool(name string) bool {
	for tool, err := range t.session.Tools(t.ctx, nil) {
		if must(tool, err).Name == name {
			return true
		}
	}
	return false
}

func (t *tourist) tour(p string) map[string]any {
	live := fmt.Sprintf("doc://%s/live", p)
	steps := map[string]any{"echo": t.json(p+"_echo", map[string]any{"n": 1, "é": "日本"})}
	contents := t.read(live)
	steps["read"] = [][]string{{contents.URI, contents.Text}}
	steps["blob"] = base64.StdEncoding.EncodeToString(t.read(fmt.Sprintf("urn:%s:x:1", p)).Blob)
	steps["expanded"] = t.read(fmt.Sprintf("doc://%s/items/7", p)).Text
	greeting := &mcp.GetPromptParams{Name: p + "_greet", Arguments: map[string]string{"name": "Ada"}}
	messages := must(t.session.GetPrompt(t.ctx, greeting)).Messages
	steps["prompt"] = []string{
		messages[0].Content.(*mcp.TextContent).Text, messages[1].Content.(*mcp.ResourceLink).URI,
	}
	steps["complete"] = [][]string{
		t.complete(&mcp.CompleteReference{Type: "ref/prompt", Name: p + "_greet"}),
		t.complete(&mcp.CompleteReference{Type: "ref/resource", URI: fmt.Sprintf("doc://%s/items/{id}", p)}),
	}
	for _, tool := range []string{"sample", "form", "roots", "rounds"} {
		steps[tool] = t.json(p+"_"+tool, nil)
	}
	steps["login"] = t.text(p + "_login")

	t.told.forget()
	must(t.call(p+"_count", nil, mcp.Meta{"progressToken": "count-" + p}))
	t.told.until("progress", func() bool { return len(t.told.progress) == 3 })
	steps["progress"] = slices.Clone(t.told.progress)
	must(t.call(p+"_talk", nil, t.logging()))
	t.told.until("log messages", func() bool { return len(t.told.logs) == 2 })
	steps["logs"] = slices.Clone(t.told.logs)

	var broken *jsonrpc.Error
	if _, err := t.call(p+"_broken", nil, nil); errors.As(err, &broken) {
		steps["error"] = []any{broken.Code, broken.Data}
	}

	if err := t.session.Subscribe(t.ctx, &mcp.SubscribeParams{URI: live}); err != nil {
		log.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	t.text(p + "_touch")
	t.told.until("an update", func() bool { return len(t.told.updated) == 1 })
	steps["update"] = t.told.updated[0]
	if err := t.session.Unsubscribe(t.ctx, &mcp.UnsubscribeParams{URI: live}); err != nil {
		log.Fatal(err)
	}

	t.told.forget()
	t.text(p + "_add")
	t.told.until("changes", func() bool { return len(t.told.changed) == 3 })
	steps["changes"] = t.hasTool(p + "_late1")
	return steps
}

func (t *tourist) logging() mcp.Meta {
	if t.session.InitializeResult().ProtocolVersion != stateless {
		return nil
	}
	return mcp.Meta{"io.modelcontextprotocol/logLevel": "debug"}
}

func main() {
	url, version, prefixes := os.Args[1], os.Args[2], os.Args[3:]
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	told := &told{changed: map[string]bool{}}
	client := mcp.NewClient(&mcp.Implementation{Name: "go", Version: "1"}, told.options())
	client.AddRoots(&mcp.Root{URI: "file:///home/me", Name: "home"})
	transport := &mcp.StreamableClientTransport{Endpoint: url}
	session := must(client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version}))
	t := &tourist{ctx, session, told}
	report := map[string]any{"lists": t.lists(), "version": session.InitializeResult().ProtocolVersion}
	if t.logging() == nil {
		if err := session.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: "debug"}); err != nil {
			log.Fatal(err)
		}
	}
	for _, prefix := range prefixes {
		report[prefix] = t.tour(prefix)
	}
	if err := session.Close(); err != nil {
		log.Print(err)
	}
	fmt.Println(string(must(json.Marshal(report))))
}
