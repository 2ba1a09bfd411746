package main

import "context"

type demoCommand struct{}

// Run implements command.
func (*demoCommand) Run(context.Context, environment) (int, error) { return 0, nil }
