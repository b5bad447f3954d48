// Exercise 05.3: cross-entropy of a vocabulary in parts.
//
// Goal:        compute the loss and its gradient where the logits are, and exchange three numbers per
//              token.
// Length:      about 35 lines
// Difficulty:  hard
// Check:       ./workbook check 05.3
// Hints:       ./workbook hint 05.3
// Targets:     loss and gradient of the whole logits on one rank, however large the logits are;
//              the same loss on every rank, bit for bit;
//              padding is never looked at, and its gradient is 0;
//              an all-reduce of one element per token, another of two, and no copy of the logits
// You will need: dispatch_float(dtype, [&]<class T>() { ... }) (common/tensor/dtype.hpp), for f32
//              and f64; HostView (common/tensor/host_view.hpp), for the host to read and write a tensor
//
// chapters/05_tensor_sequence_parallel/vocabulary_parallel.hpp declares the function.
#include "chapters/05_tensor_sequence_parallel/vocabulary_parallel.hpp"

#include "common/base/errors.hpp"

namespace ultra::tensor_parallel {

// TODO 1: set the columns behind `vocabulary` to their gradient, which is 0: nothing may depend on what
// stands there. The rest works for each floating dtype: dispatch_float.
// TODO 2: the highest logit of each token, over all ranks. A rank may have no tokens of the vocabulary.
// TODO 3: replace each logit by exp(logit - highest). Over all ranks: the sum of these, and the logit
// of the target; they travel together.
// TODO 4: the loss from the three numbers of each token, in f64, and the gradient in the logits' place.
double vocabulary_parallel_cross_entropy([[maybe_unused]] const Tensor& logits,
                                         [[maybe_unused]] const Tensor& targets,
                                         [[maybe_unused]] Range vocabulary,
                                         [[maybe_unused]] double normalizer,
                                         [[maybe_unused]] const Communicator& tp) {
  throw NotWritten("05.3 vocabulary_parallel: vocabulary_parallel_cross_entropy");
}

}  // namespace ultra::tensor_parallel
