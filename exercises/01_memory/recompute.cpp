// Exercise 01.5: activation recomputation.
//
// Goal:        trade one more forward pass for most of the activation memory, bit for bit the same.
// Length:      about 8 lines for full, about 12 for selective
// Difficulty:  medium
// Check:       ./workbook check 01.5
// Hints:       ./workbook hint 01.5
// Targets:     gradients bitwise equal to those without recomputation;
//              full: tokens x hidden elements stay per block;
//              selective: tokens x (2 h + f) elements per block less than without
//
// chapters/01_memory/recompute.hpp declares both layers, and has SelectiveRecompute's passes: they call
// what you write. common/nn/saved.hpp has the tree of saved tensors, and Remakeable; look at
// common/nn/layers/norm.cpp for who says what can be made again.
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

// TODO 3: for each of kept.remakeables(), find the paths under which the tree has saved its tensor (in
//         any of the tree's subtrees, more than once perhaps) and drop them. Memory is free when nobody
//         holds the tensor: who else does?
void forget_remakeable([[maybe_unused]] nn::Saved& kept) {
  throw NotWritten("01.5 forget_remakeable");
}

// TODO 4: make each of them again, put it back under its paths, and let go of all that they were made
//         from: the backward pass frees what it has used, unless somebody still holds it.
void remake([[maybe_unused]] nn::Saved& kept) { throw NotWritten("01.5 remake"); }

}  // namespace ultra::memory
