#include "common/gpu/stream_role.hpp"

#include <utility>

namespace ultra::gpu {
namespace {

thread_local StreamRole role_of_this_thread = StreamRole::kCompute;

}  // namespace

std::string_view to_string(StreamRole role) {
  switch (role) {
    case StreamRole::kCompute:
      return "compute";
    case StreamRole::kCommunication:
      return "communication";
    case StreamRole::kCopy:
      break;
  }
  return "copy";
}

StreamRole current_role() { return role_of_this_thread; }

StreamScope::StreamScope(StreamRole role) : before_(std::exchange(role_of_this_thread, role)) {}

StreamScope::~StreamScope() { role_of_this_thread = before_; }

}  // namespace ultra::gpu
