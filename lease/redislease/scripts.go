package redislease

import (
	_ "embed"
	"strings"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed head.lua
	headScript string
	//go:embed common.lua
	commonScript string
	//go:embed enter.lua
	enterScript string
	//go:embed stay.lua
	stayScript string
	//go:embed extend.lua
	extendScript string
	//go:embed drop.lua
	dropScript string
	//go:embed look.lua
	lookScript string
)

type scripts struct{ enter, stay, extend, drop, look *redis.Script }

func loadScripts() scripts {
	load := func(text string) *redis.Script {
		return redis.NewScript(headScript + strings.Replace(text, "--@common\n", commonScript, 1))
	}
	return scripts{enter: load(enterScript), stay: load(stayScript), extend: load(extendScript), drop: load(dropScript), look: load(lookScript)}
}
