package testservers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// TrinoResult is what a statement returned.
type TrinoResult struct {
	Columns []TrinoColumn
	Rows    [][]any // as JSON has them, numbers as json.Number
}

// TrinoColumn is a column of a result. Type is spelled as Trino does: decimal(12, 2), array(varchar).
type TrinoColumn struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// TrinoError is Trino's own word on a statement.
type TrinoError struct {
	Name    string `json:"errorName"` // TABLE_NOT_FOUND, ...
	Message string `json:"message"`
}

func (e *TrinoError) Error() string { return e.Name + ": " + e.Message }

// trinoPage is one answer of Trino's protocol of statements.
type trinoPage struct {
	Columns []TrinoColumn `json:"columns"`
	Data    [][]any       `json:"data"`
	NextURI string        `json:"nextUri"`
	Error   *TrinoError   `json:"error"`
}

// Query executes a statement, without a semicolon at its end, and returns all its rows. What Trino says
// against it is a *TrinoError.
func (t Trino) Query(ctx context.Context, statement string) (TrinoResult, error) {
	client := &http.Client{Transport: &http.Transport{}} // no proxy between two addresses of this machine
	defer client.CloseIdleConnections()
	var result TrinoResult
	page, err := t.call(ctx, client, http.MethodPost, t.Endpoint+"/v1/statement", statement)
	for {
		if err != nil {
			return TrinoResult{}, err
		}
		if page.Error != nil {
			return TrinoResult{}, fmt.Errorf("execute statement: %w", page.Error)
		}
		if page.Columns != nil {
			result.Columns = page.Columns
		}
		result.Rows = append(result.Rows, page.Data...)
		if page.NextURI == "" {
			return result, nil
		}
		// The server answers when it has something, or after about a second.
		page, err = t.call(ctx, client, http.MethodGet, page.NextURI, "")
	}
}

func (t Trino) call(ctx context.Context, client *http.Client, method, address, body string) (page trinoPage, err error) {
	request, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return page, fmt.Errorf("ask trino: %w", err)
	}
	request.Header.Set("X-Trino-User", "test")
	if t.Catalog != "" {
		request.Header.Set("X-Trino-Catalog", t.Catalog)
	}
	response, err := client.Do(request)
	if err != nil {
		return page, fmt.Errorf("ask trino: %w", err)
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return page, fmt.Errorf("ask trino: status %s", response.Status)
	}
	decoder := json.NewDecoder(response.Body)
	decoder.UseNumber()
	if err := decoder.Decode(&page); err != nil {
		return page, fmt.Errorf("decode answer of trino: %w", err)
	}
	return page, nil
}
