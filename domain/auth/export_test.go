package auth

// HoldHashing occupies all slots for hashing passwords until free is called.
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
