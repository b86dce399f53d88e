//! A data buffer at a chosen alignment, filled so that nothing on the way can compress it.
//! Knows no sockets.

/// Octets whose first one stands at a multiple of the alignment.
pub struct AlignedBuffer {
    storage: Vec<u8>,
    first: usize,
    len: usize,
}

impl AlignedBuffer {
    /// A buffer of `len` octets at a multiple of `alignment`, a power of two.
    pub fn new(len: usize, alignment: usize) -> AlignedBuffer {
        let storage = vec![0; len + alignment];
        let first = storage.as_ptr().align_offset(alignment).min(alignment);
        let mut buffer = AlignedBuffer { storage, first, len };
        fill(buffer.as_mut_slice());
        buffer
    }

    /// The octets.
    pub fn as_slice(&self) -> &[u8] {
        &self.storage[self.first..self.first + self.len]
    }

    /// The octets.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.storage[self.first..self.first + self.len]
    }
}

/// Fills with the output of xorshift64 (Marsaglia, "Xorshift RNGs", 2003).
pub fn fill(octets: &mut [u8]) {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for chunk in octets.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_stands_where_it_was_asked_to() {
        for alignment in [1, 64, 4096, 16_384, 1 << 20] {
            let buffer = AlignedBuffer::new(8192, alignment);
            assert_eq!(buffer.as_slice().as_ptr() as usize % alignment, 0);
            assert_eq!(buffer.as_slice().len(), 8192);
        }
    }
}
