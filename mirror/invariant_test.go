package mirror_test

func (w *world) checkInvariants() {}
