package mlflow

// walk calls fn with each field of an object, or with each item of an array, whose name is nil. It
// does not decode names: none that is asked for needs an escape. raw must be sound JSON without
// space around it, which encoding/json has checked; to decode batches with it takes several times
// as long.
func walk(raw []byte, fn func(name, value []byte)) {
	object := raw[0] == '{'
	for i := skip(raw, 1); i < len(raw)-1; i = skip(raw, i) {
		var name []byte
		if object {
			n := textLength(raw[i:])
			name = raw[i+1 : i+n-1]
			i = skip(raw, i+n)
		}
		n := valueLength(raw[i:])
		fn(name, raw[i:i+n])
		i += n
	}
}

// skip returns the place of the next value, or of the end.
func skip(raw []byte, i int) int {
	for raw[i] == ' ' || raw[i] == ',' || raw[i] == ':' || raw[i] == '\n' || raw[i] == '\t' || raw[i] == '\r' {
		i++
	}
	return i
}

// valueLength returns the length of the value that raw begins with.
func valueLength(raw []byte) int {
	switch raw[0] {
	case '"':
		return textLength(raw)
	case '{', '[':
		return nestedLength(raw)
	}
	for i, c := range raw {
		if c <= ' ' || c == ',' || c == ']' || c == '}' {
			return i
		}
	}
	return len(raw)
}

// textLength returns the length of the text, with its quotes.
func textLength(raw []byte) int {
	for i := 1; ; i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

func nestedLength(raw []byte) int {
	depth := 0
	for i := 0; ; i++ {
		switch raw[i] {
		case '"':
			i += textLength(raw[i:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
}
