// Package config owns the settings: one struct, filled from the command line, MIRROR_*
// environment variables, a YAML file and defaults, in this order. A setting has one name that
// is spelled three ways: --transfer-idle-timeout, MIRROR_TRANSFER_IDLE_TIMEOUT and
// transfer.idle_timeout. All problems are reported at once, each with its setting, where the
// value stands and what is allowed.
//
// Secrets are no settings: the API key comes from PLOTI_API_KEY or from a file that a setting
// names. The package reaches nothing but the files it is told to read, and knows nothing of what
// the settings do.
package config
