package auth

// HoldHashing takes every place where a password is hashed, until it is told to free them.
func (s *Service) HoldHashing() (free func()) {
	for range cap(s.hashing) {
		s.hashing <- struct{}{}
	}
	return func() {
		for range cap(s.hashing) {
			<-s.hashing
		}
	}
}
