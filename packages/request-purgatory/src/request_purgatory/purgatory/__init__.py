"""Operations that wait, the keys they are watched under, and the purgatory that holds them."""
