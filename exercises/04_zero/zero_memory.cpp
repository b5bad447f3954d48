// Exercise 04.6: memory formulas.
//
// Goal:        tell before a run what each stage of ZeRO keeps on a rank, and what it sends.
// Length:      about 25 lines
// Difficulty:  easy
// Check:       ./workbook check 04.6
// Hints:       ./workbook hint 04.6
// Targets:     the ZeRO paper's table 1   7.5B parameters on 64 ranks: 120, 31.4, 16.6 and 1.88 GB
//              its table 2                32 GB per rank, 64 ranks: 2B, 7.6B, 14.4B and 128B
//                                         parameters fit
//              sent per step              2 P, 2 P, 2 P and 3 P, times (N-1)/N, for one micro-batch
//              hybrid sharding            memory of a node's shards; between nodes, shards only
//
// chapters/04_zero/zero_memory.hpp declares the types. Derive the formulas: which states does a
// stage divide, and by how many ranks? How often does a step need an
// all-gather, how often a reduce-scatter, and how much does each send? zero_stage.hpp says what
// each stage shards; chapter 01's bytes_per_parameter() knows the bytes.
#include "chapters/04_zero/zero_memory.hpp"

#include "common/base/errors.hpp"

namespace ultra::zero {

// TODO 1 (about 9 lines): the bytes of each state, divided where the stage shards it. Divide as
// double: the ranks need not divide the bytes.
RankBytes bytes_per_rank([[maybe_unused]] const Sharding& sharding,
                         [[maybe_unused]] std::size_t parameters,
                         [[maybe_unused]] memory::NumberFormats precision) {
  throw NotWritten("04.6 zero_memory: bytes_per_rank");
}

// TODO 2 (about 12 lines): count the collectives of a step of m micro-batches.
// - Which of them happen once per step, which in every micro-batch?
// - What does a rank send in each? Inside a copy S ranks take part, between copies R.
SentElements sent_per_rank([[maybe_unused]] const Sharding& sharding,
                           [[maybe_unused]] std::size_t parameters,
                           [[maybe_unused]] std::size_t micro_batches,
                           [[maybe_unused]] Reshard reshard) {
  throw NotWritten("04.6 zero_memory: sent_per_rank");
}

// TODO 3 (1 line): how many parameters fit, from what one takes.
double largest_model([[maybe_unused]] const Sharding& sharding,
                     [[maybe_unused]] memory::NumberFormats precision,
                     [[maybe_unused]] double device_bytes) {
  throw NotWritten("04.6 zero_memory: largest_model");
}

}  // namespace ultra::zero
