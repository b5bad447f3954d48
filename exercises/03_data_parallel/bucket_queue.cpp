// Exercise 03.3: the bucket queue.
//
// Goal:        send each bucket as early as possible, and all ranks' buckets in the same order.
// Length:      about 25 lines
// Difficulty:  medium
// Check:       ./workbook check 03.3
// Hints:       ./workbook hint 03.3
// Targets:     every bucket flushed once, in the call of ready() that makes it possible;
//              buckets 0, 1, 2, ... in this order, whatever the order of the gradients;
//              what must not happen is an InternalError with the parameter's number
//
// chapters/03_data_parallel/bucket_queue.hpp declares the class, and members that suffice.
#include "chapters/03_data_parallel/bucket_queue.hpp"

#include <utility>

#include "common/base/errors.hpp"

namespace ultra::data_parallel {

// TODO 1: from the buckets, note the bucket of each parameter and the size of each bucket; then
// restart(). Throw InternalError when a parameter is in two buckets or in none.
BucketQueue::BucketQueue([[maybe_unused]] const std::vector<Bucket>& buckets, Flush flush)
    : flush_(std::move(flush)) {
  throw NotWritten("03.3 bucket_queue: the constructor");
}

// TODO 2: nothing is ready, every bucket waits for all its parameters, none has been flushed.
void BucketQueue::restart() { throw NotWritten("03.3 bucket_queue: restart"); }

// TODO 3: one parameter less to wait for. Which buckets may go now? It can be none, or several.
// Throw InternalError when the parameter was ready before.
void BucketQueue::ready([[maybe_unused]] std::size_t parameter) {
  throw NotWritten("03.3 bucket_queue: ready");
}

// TODO 4: throw InternalError when a parameter is not ready.
void BucketQueue::expect_all_flushed() const {
  throw NotWritten("03.3 bucket_queue: expect_all_flushed");
}

}  // namespace ultra::data_parallel
