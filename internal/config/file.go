package config

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxFile bounds a settings file in bytes.
const maxFile = 1 << 20

// fileReader walks a settings file. It works on the syntax tree and not on decoded values, so
// that each problem has its line and one does not hide the others.
type fileReader struct {
	name     string
	settings map[string]setting // by path in the file
	sections map[string]bool    // paths that hold further ones
	seen     map[string]int     // lines of the keys met so far
	out      map[string]value
	problems []error
}

// readFile returns the settings in a file by flag.
func readFile(from value, source Source) (map[string]value, []error) {
	data, err := source.read(from.text)
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("larger than %d bytes", maxFile)
	}
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, []error{problem("config", fmt.Errorf("%q from %s: %w", from.text, from.from, err), "")}
	}
	r := &fileReader{name: from.text, settings: map[string]setting{}, sections: map[string]bool{}, seen: map[string]int{}, out: map[string]value{}}
	for _, one := range table() {
		r.settings[one.yaml] = one
		if section, _, ok := strings.Cut(one.yaml, "."); ok {
			r.sections[section] = true
		}
	}
	// Duplicate keys are found below, all of them; the parser would stop at the first.
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, []error{r.unparsable(err)}
	}
	if len(file.Docs) > 1 {
		return nil, []error{problem(r.name, errors.New("the file holds several documents"), "")}
	}
	for _, document := range file.Docs {
		if document.Body != nil {
			r.mapping("", document.Body)
		}
	}
	return r.out, r.problems
}

var yamlPosition = regexp.MustCompile(`^\[(\d+):\d+\] `)

// unparsable keeps the first line of the parser's error: the others quote the file, which may
// hold what should not be shown.
func (r *fileReader) unparsable(err error) error {
	text, _, _ := strings.Cut(err.Error(), "\n")
	place := r.name
	if at := yamlPosition.FindStringSubmatch(text); at != nil {
		place += ":" + at[1]
		text = text[len(at[0]):]
	}
	return problem(place, fmt.Errorf("not YAML: %s", text), "")
}

func (r *fileReader) complain(node ast.Node, err error, hint string) {
	r.problems = append(r.problems, problem(r.place(node), err, hint))
}

func (r *fileReader) place(node ast.Node) string {
	return fmt.Sprintf("%s:%d", r.name, line(node))
}

func line(node ast.Node) int {
	if token := node.GetToken(); token != nil && token.Position != nil {
		return token.Position.Line
	}
	return 1
}

// mapping reads the members of a section, or of the whole file when section is empty.
func (r *fileReader) mapping(section string, node ast.Node) {
	switch node := node.(type) {
	case *ast.MappingNode:
		for _, member := range node.Values {
			r.member(section, member)
		}
	case *ast.MappingValueNode:
		r.member(section, node)
	case *ast.CommentGroupNode:
	case *ast.NullNode:
	default:
		what := "the file"
		if section != "" {
			what = section
		}
		r.complain(node, fmt.Errorf("%s must hold settings by name", what), "")
	}
}

func (r *fileReader) member(section string, member *ast.MappingValueNode) {
	name := member.Key.GetToken().Value
	if section != "" {
		name = section + "." + name
	}
	if first, again := r.seen[name]; again {
		r.complain(member.Key, fmt.Errorf("%s stands twice: in line %d already", name, first), "")
		return
	}
	r.seen[name] = line(member.Key)
	one, isSetting := r.settings[name]
	switch {
	case section == "" && r.sections[name]:
		r.mapping(name, member.Value)
	case isSetting && (section != "" || !strings.Contains(name, ".")):
		r.setting(one, member)
	case isSetting:
		r.complain(member.Key, fmt.Errorf("%s must be nested", name), "Write the part behind the dot indented in a line of its own.")
	default:
		r.complain(member.Key, fmt.Errorf("no setting is called %q", name), unknownHint(name))
	}
}

func (r *fileReader) setting(one setting, member *ast.MappingValueNode) {
	var texts []string
	nodes := []ast.Node{member.Value}
	if list, ok := member.Value.(*ast.SequenceNode); ok && one.list {
		nodes = list.Values
	}
	for _, node := range nodes {
		text, ok := scalar(node)
		if !ok {
			r.complain(member.Key, fmt.Errorf("%s has a value of another kind: want %s", one.yaml, one.allowed), "")
			return
		}
		texts = append(texts, text)
	}
	if len(texts) > 0 { // an empty list is no value
		r.out[one.flag] = value{text: strings.Join(texts, ","), from: r.place(member.Key)}
	}
}

// scalar returns a value's text as it stands in the file, so that 1e3 or 0x10 is not turned
// into a number that nobody wrote.
func scalar(node ast.Node) (string, bool) {
	switch node := node.(type) {
	case *ast.StringNode:
		return node.Value, true
	case *ast.LiteralNode:
		return strings.TrimSpace(node.Value.Value), true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return node.GetToken().Value, true
	}
	return "", false
}
