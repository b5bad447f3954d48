"""The sequences that the workbook's trainer draws, from the papers and not from its sources.

Philox 4x32-10: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3". The stream's name
is hashed by FNV-1a (RFC 9923).
"""

import numpy as np

WORD = 0xFFFFFFFF


def philox(counter, key):
    counter, key = list(counter), list(key)
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(second >> 32) ^ counter[1] ^ key[0], second & WORD,
                   (first >> 32) ^ counter[3] ^ key[1], first & WORD]
        key = [(key[0] + 0x9E3779B9) & WORD, (key[1] + 0xBB67AE85) & WORD]
    return counter


def fnv1a(text):
    number = 0xCBF29CE484222325
    for byte in text.encode():
        number = ((number ^ byte) * 0x100000001B3) & (2**64 - 1)
    return number


def below(seed, index, bound):
    name = fnv1a("data order")
    block = index // 2
    words = philox((block & WORD, block >> 32, name & WORD, name >> 32), (seed & WORD, seed >> 32))
    pair = 2 * (index % 2)
    return ((words[pair] << 32) | words[pair + 1]) % bound


def batch(tokens, step, sequences, seq_len, seed=1):
    """Tokens and targets, [sequences, seq_len], of a step; 0 is the first."""
    starts = [below(seed, step * sequences + i, len(tokens) - seq_len) for i in range(sequences)]
    drawn = np.stack([tokens[start:start + seq_len + 1] for start in starts]).astype(np.int64)
    return drawn[:, :-1], drawn[:, 1:]
