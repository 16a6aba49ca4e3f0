package inside

// Embedded ties a value, whose type embeds it, to its inside. No other package can name its method.
type Embedded[T any] struct{ of T }

// Embed returns what a value of that inside embeds.
func Embed[T any](of T) Embedded[T] { return Embedded[T]{of} }

func (e Embedded[T]) inside() T { return e.of }

// Of returns the inside of a value.
func Of[T any](value interface{ inside() T }) T { return value.inside() }
