#pragma once
/// @file
/// What a stream is for, and on which one a thread works at the moment.

#include <array>
#include <cstddef>
#include <string_view>

/// @brief Devices with streams: memory of their own and queues of work that the host does not wait for.
namespace ultra::gpu {

/// @brief What a stream is for: each rank's device has one stream of each.
enum class StreamRole { kCompute, kCommunication, kCopy };

/// Number of roles.
inline constexpr std::size_t kNumStreamRoles = 3;

/// All roles, in the order in which traces show them.
inline constexpr std::array<StreamRole, kNumStreamRoles> kStreamRoles = {
    StreamRole::kCompute, StreamRole::kCommunication, StreamRole::kCopy};

/// @brief "compute", "communication" or "copy".
[[nodiscard]] std::string_view to_string(StreamRole role);

/// @brief The role whose stream takes what the calling thread launches: kCompute outside every
/// StreamScope.
[[nodiscard]] StreamRole current_role();

/// @brief Until its end, what this thread launches and allocates belongs to the stream of a role.
class StreamScope {
 public:
  /// @brief The thread works on the stream of `role` from now on.
  explicit StreamScope(StreamRole role);
  /// @brief The thread works on the stream of before again.
  ~StreamScope();
  /// @brief A scope belongs to its block.
  StreamScope(const StreamScope&) = delete;
  /// @brief A scope belongs to its block.
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  StreamRole before_;
};

}  // namespace ultra::gpu
