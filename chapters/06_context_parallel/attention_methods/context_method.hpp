#pragma once
/// @file
/// The methods of context parallelism, and the groups of ranks that each of them needs.

#include <cstdint>
#include <memory>

#include "chapters/06_context_parallel/attention_methods/sequence_attention.hpp"
#include "chapters/06_context_parallel/context_layout.hpp"
#include "chapters/06_context_parallel/sequence_group.hpp"

namespace ultra::context_parallel {

/// @brief How queries get to see the keys of other ranks.
enum class ContextMethod : std::uint8_t {
  kRing,         ///< keys and values travel a ring
  kAllGather,    ///< keys and values are gathered
  kUlysses,      ///< tokens are exchanged for heads
  kUlyssesRing,  ///< both: in groups of neighbours for heads, across them in a ring
};

/// @brief A method, and how many ranks exchange tokens for heads.
struct MethodChoice {
  ContextMethod method = ContextMethod::kRing;  ///< how
  int cp = 1;                                   ///< ranks that share a sequence
  int ulysses = 1;  ///< of them: neighbours that exchange heads; cp for kUlysses, 1 without

  /// @brief Ranks of the ring, or of the gathering: cp / ulysses.
  [[nodiscard]] int ring() const { return cp / ulysses; }
  bool operator==(const MethodChoice&) const = default;
};

/// @brief The groups in which a rank exchanges what its method needs.
class ContextGroups {
 public:
  /// @brief Ranks r U to (r + 1) U - 1 of cp exchange heads, ranks u, u + U, ... are a ring.
  /// @param cp  the ranks that share each sequence; as many as the layout says.
  /// Collective over cp.
  ContextGroups(const Communicator& cp, const ContextLayout& layout, const MethodChoice& choice);

  /// @brief Attention in these groups; outlives them.
  [[nodiscard]] std::unique_ptr<SequenceAttention> make_attention() const;

 private:
  ContextMethod method_;
  SequenceGroup heads_;
  SequenceGroup ring_;
};

}  // namespace ultra::context_parallel
