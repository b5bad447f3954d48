// Exercise 01.5: activation recomputation.
//
// Goal:        trade one more forward pass for most of the activation memory, bit for bit the same.
// Length:      about 8 lines for full, about 20 for selective
// Difficulty:  medium
// Check:       ./workbook check 01.5
// Hints:       ./workbook hint 01.5
// Targets:     gradients bitwise equal to those without recomputation;
//              full: tokens x hidden elements stay per block;
//              selective: tokens x (2 h + f) elements per block less than without
//
// chapters/01_memory/recompute.hpp declares both layers. common/nn/saved.hpp has the tree of saved
// tensors; common/nn/transformer_block.hpp and the headers of its parts name what they put there.
#include "chapters/01_memory/recompute.hpp"

#include "common/base/errors.hpp"

namespace ultra::memory {

// TODO 1: run the wrapped layer so that it keeps nothing (Saved::Mode::kDiscard, and the pass of
//         `saved`); keep its input.
Tensor FullRecompute::forward([[maybe_unused]] const Tensor& x, [[maybe_unused]] nn::Saved& saved) {
  throw NotWritten("01.5 FullRecompute::forward");
}

// TODO 2: run the wrapped layer forward again, this time keeping, and then backward. The Saved for
//         it says that the same pass runs again: saved.recomputing().
Tensor FullRecompute::backward([[maybe_unused]] const Tensor& d_y,
                               [[maybe_unused]] nn::Saved& saved) {
  throw NotWritten("01.5 FullRecompute::backward");
}

// TODO 3: run the block, then drop the three tensors that the header names. Let `saved` keep the rest.
Tensor SelectiveRecompute::forward([[maybe_unused]] const Tensor& x,
                                   [[maybe_unused]] nn::Saved& saved) {
  throw NotWritten("01.5 SelectiveRecompute::forward");
}

// TODO 4: compute the three again from what stayed, put them back, and run the block's backward pass.
//         The norms' inputs are in "attention_norm" and "ffn_norm"; gate and up in "feed_forward".
Tensor SelectiveRecompute::backward([[maybe_unused]] const Tensor& d_y,
                                    [[maybe_unused]] nn::Saved& saved) {
  throw NotWritten("01.5 SelectiveRecompute::backward");
}

}  // namespace ultra::memory
