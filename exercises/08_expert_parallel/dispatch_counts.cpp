// Exercise 08.3: how many rows travel.
//
// Goal:        tell every rank how many rows it will get for each of its experts, and where in the order
//              of the experts they belong.
// Length:      about 50 lines
// Difficulty:  medium
// Check:       ./workbook check 08.3
// Hints:       ./workbook hint 08.3
// Targets:     rows to and from every rank, on any number of ranks; rows of each local expert;
//              one all-to-all of one i32 per expert, and none on one rank;
//              every row that arrives moved once, each expert's rows in the order of the ranks
// You will need: ep.all_to_all() (common/comm/communicator.hpp), and wait() of the Work that it returns
//
// chapters/08_expert_parallel/dispatch_counts.hpp declares the functions.
#include "chapters/08_expert_parallel/dispatch_counts.hpp"

#include "common/base/errors.hpp"

namespace ultra::expert_parallel {

// TODO 1: the rows to each rank and from each rank, when it is known what arrives.
DispatchCounts counts_of([[maybe_unused]] std::span<const std::size_t> rows_per_expert,
                         [[maybe_unused]] std::vector<std::size_t> received,
                         [[maybe_unused]] std::size_t ranks) {
  throw NotWritten("08.3 dispatch_counts");
}

// TODO 2: exchange the counts, so that it is known.
DispatchCounts dispatch_counts([[maybe_unused]] std::span<const std::size_t> rows_per_expert,
                               [[maybe_unused]] const Communicator& ep) {
  throw NotWritten("08.3 dispatch_counts");
}

// TODO 3: for each local expert, the rows that all ranks send it.
std::vector<std::size_t> DispatchCounts::rows_per_local_expert() const {
  throw NotWritten("08.3 dispatch_counts");
}

// TODO 4: where the rows of each rank for each expert begin, as they arrive and as the experts need
// them. All three lists are by rank and expert: what changes is the order in which you count.
RowSegments row_segments([[maybe_unused]] const DispatchCounts& counts) {
  throw NotWritten("08.3 dispatch_counts");
}

}  // namespace ultra::expert_parallel
