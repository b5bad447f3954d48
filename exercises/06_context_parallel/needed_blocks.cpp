// Exercise 06.5: which blocks are needed.
//
// Goal:        compute no score that the mask hides anyway.
// Length:      about 20 lines
// Difficulty:  medium
// Check:       ./workbook check 06.5
// Hints:       ./workbook hint 06.5
// Targets:     every block in which a real query sees a key, and no other;
//              a mask where some pair is hidden, and none where all are seen; documents; padding
//
// chapters/06_context_parallel/needed_blocks.hpp declares the functions.
#include "chapters/06_context_parallel/needed_blocks.hpp"

#include "common/base/errors.hpp"

namespace ultra::context_parallel {

// TODO 1: leave out blocks whose keys all come after the last real query.
// TODO 2: leave out those whose keys all come before the document of every real query that is not before
// them all.
// TODO 3: say whether a mask is needed in the rest: whether some real query does not see some key.
std::vector<AttentionBlock> needed_blocks([[maybe_unused]] const TokenChunks& queries,
                                          [[maybe_unused]] const TokenChunks& keys,
                                          [[maybe_unused]] const SequenceMask& mask) {
  throw NotWritten("06.5 needed_blocks");
}

}  // namespace ultra::context_parallel
