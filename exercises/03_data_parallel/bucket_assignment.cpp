// Exercise 03.2: bucket assignment.
//
// Goal:        put gradients into buckets that fill up in the order in which the backward pass makes
//              gradients, also where not all gradients may travel together.
// Length:      about 25 lines
// Difficulty:  easy
// Check:       ./workbook check 03.2
// Hints:       ./workbook hint 03.2
// Targets:     every parameter once, the last one first;
//              no bucket above its capacity, but for a parameter that is larger by itself;
//              no bucket that could have taken the next parameter;
//              one kind in a bucket, and buckets in the order in which they are full
//
// chapters/03_data_parallel/bucket_assignment.hpp declares the functions and what a bucket is.
#include "chapters/03_data_parallel/bucket_assignment.hpp"

#include "common/base/errors.hpp"

namespace ultra::data_parallel {

// TODO 1: walk over the parameters in backward order. When does one still go into the last bucket, when
// does a new bucket begin? Count the elements of each bucket.
std::vector<Bucket> assign_buckets([[maybe_unused]] std::span<const std::size_t> counts,
                                   [[maybe_unused]] std::size_t capacity) {
  throw NotWritten("03.2 bucket_assignment");
}

// TODO 2: the same for parameters of several kinds. More than one bucket is open now: the one that was
// begun first need not be full first. Which gradient does a bucket wait for?
std::vector<Bucket> assign_buckets_by_kind([[maybe_unused]] std::span<const std::size_t> counts,
                                           [[maybe_unused]] std::span<const std::size_t> kinds,
                                           [[maybe_unused]] std::size_t capacity) {
  throw NotWritten("03.2 bucket_assignment");
}

}  // namespace ultra::data_parallel
