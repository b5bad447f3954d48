// The part of NCCL that the workbook calls, for ranks that are threads of this process and memory that
// the host can read. A call is put down and returns; the last member to come does the work for all, and
// until then the group is "in progress", as a communicator that does not block is.

#include "tests/fakes/nccl/fake_nccl.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

enum : int { kSuccess = 0, kInternalError = 3, kRemoteError = 6, kInProgress = 7 };
enum class Kind { kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter };

std::mutex mutex;  // guards everything below
std::map<std::string, int> calls;
int fault = kFakeNcclNoFault;
int open_comms = 0;

void count(const char* name) {
  const std::scoped_lock lock(mutex);
  ++calls[name];
}

struct UniqueId {
  char bytes[128];
};

struct Call {
  Kind kind{};
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;
  int type = 0;
  int op = 0;
  int root = 0;
};

struct Message {
  void* memory = nullptr;
  std::size_t bytes = 0;
  std::atomic<int>* left = nullptr;  // of its group's unfinished calls
};

struct World {
  explicit World(int ranks) : size(ranks), queues(static_cast<std::size_t>(ranks)) {}

  int size;
  int joined = 0;
  std::vector<std::deque<std::pair<Call, std::atomic<int>*>>> queues;  // collectives, by rank
  std::map<std::pair<int, int>, std::deque<Message>> sends;            // by sender and receiver
  std::map<std::pair<int, int>, std::deque<Message>> receives;
};

std::map<std::string, std::shared_ptr<World>> worlds;

std::size_t width_of(int type) {
  return type == 0 ? 1 : type == 8 ? 8 : type == 6 || type == 9 ? 2 : 4;
}

double number_at(const void* memory, std::size_t i, int type) {
  switch (type) {
    case 2:
      return static_cast<const std::int32_t*>(memory)[i];
    case 6:
      return static_cast<double>(static_cast<const _Float16*>(memory)[i]);
    case 7:
      return static_cast<double>(static_cast<const float*>(memory)[i]);
    case 8:
      return static_cast<const double*>(memory)[i];
    default:
      break;
  }
  const std::uint32_t bits = std::uint32_t{static_cast<const std::uint16_t*>(memory)[i]} << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return static_cast<double>(value);
}

/// Numbers that the type holds exactly: tests add small integers.
void put_number(void* memory, std::size_t i, int type, double value) {
  if (type == 2) static_cast<std::int32_t*>(memory)[i] = static_cast<std::int32_t>(value);
  if (type == 6) static_cast<_Float16*>(memory)[i] = static_cast<_Float16>(value);
  if (type == 7) static_cast<float*>(memory)[i] = static_cast<float>(value);
  if (type == 8) static_cast<double*>(memory)[i] = value;
  if (type != 9) return;
  const auto narrow = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &narrow, sizeof bits);
  static_cast<std::uint16_t*>(memory)[i] = static_cast<std::uint16_t>(bits >> 16);
}

/// [count] elements from `begin` on, of all members' inputs.
std::vector<double> reduced(const std::vector<Call>& members, std::size_t begin,
                            std::size_t count) {
  const Call& first = members.front();
  std::vector<double> result;
  for (std::size_t i = begin; i < begin + count; ++i) {
    double value = number_at(first.send, i, first.type);
    for (std::size_t rank = 1; rank < members.size(); ++rank) {
      const double other = number_at(members[rank].send, i, first.type);
      value = first.op == 2   ? std::max(value, other)
              : first.op == 3 ? std::min(value, other)
                              : value + other;
    }
    result.push_back(value);
  }
  return result;
}

void store(const Call& call, const std::vector<double>& numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    put_number(call.receive, i, call.type, numbers[i]);
  }
}

void carry_out(const std::vector<Call>& members) {
  const Call& first = members.front();
  const std::size_t bytes = first.count * width_of(first.type);
  const auto root = static_cast<std::size_t>(first.root);
  switch (first.kind) {
    case Kind::kAllReduce: {
      const std::vector<double> sum = reduced(members, 0, first.count);
      for (const Call& member : members) store(member, sum);
      return;
    }
    case Kind::kReduce:
      return store(members[root], reduced(members, 0, first.count));
    case Kind::kBroadcast:
      for (const Call& member : members) std::memmove(member.receive, members[root].send, bytes);
      return;
    case Kind::kAllGather:
      for (const Call& member : members) {
        for (std::size_t rank = 0; rank < members.size(); ++rank) {
          std::memmove(static_cast<char*>(member.receive) + rank * bytes, members[rank].send,
                       bytes);
        }
      }
      return;
    case Kind::kReduceScatter: {
      std::vector<std::vector<double>> chunks;  // all before any is stored: outputs may be inputs
      for (std::size_t rank = 0; rank < members.size(); ++rank) {
        chunks.push_back(reduced(members, rank * first.count, first.count));
      }
      for (std::size_t rank = 0; rank < members.size(); ++rank) store(members[rank], chunks[rank]);
      return;
    }
  }
}

/// Does what all members have come for.
void settle(World& world) {
  const auto waits = [](const auto& queue) { return !queue.empty(); };
  while (std::ranges::all_of(world.queues, waits)) {
    std::vector<Call> members;
    for (const auto& queue : world.queues) members.push_back(queue.front().first);
    carry_out(members);
    for (auto& queue : world.queues) {
      --*queue.front().second;
      queue.pop_front();
    }
  }
  for (auto& [pair, sends] : world.sends) {
    auto& receives = world.receives[pair];
    while (!sends.empty() && !receives.empty()) {
      std::memmove(receives.front().memory, sends.front().memory, sends.front().bytes);
      --*sends.front().left;
      --*receives.front().left;
      sends.pop_front();
      receives.pop_front();
    }
  }
}

}  // namespace

struct ncclComm {
  std::shared_ptr<World> world;
  int rank = 0;
  std::atomic<int> left{0};  // calls under way
  bool failed = false;
};

namespace {

std::vector<std::unique_ptr<ncclComm>> aborted;  // others' calls may still name them

int refused() { return fault == kFakeNcclCallFails ? kInternalError : kSuccess; }

/// Puts a call down and lets those that are complete happen.
template <class Fn>
int put(ncclComm* comm, const char* name, Fn&& fn) {
  const std::scoped_lock lock(mutex);
  ++calls[name];
  if (const int error = refused(); error != kSuccess) return error;
  ++comm->left;
  if (fault == kFakeNcclLaterFails) comm->failed = true;
  if (fault == kFakeNcclNoFault) {
    fn();
    settle(*comm->world);
  }
  return kInProgress;
}

int collective(ncclComm* comm, const char* name, const Call& call) {
  return put(comm, name, [&] {
    comm->world->queues[static_cast<std::size_t>(comm->rank)].emplace_back(call, &comm->left);
  });
}

}  // namespace

extern "C" {

void fake_nccl_set_fault(int now) {
  const std::scoped_lock lock(mutex);
  fault = now;
}

int fake_nccl_calls(const char* name) {
  const std::scoped_lock lock(mutex);
  return calls[name];
}

int fake_nccl_open_comms() {
  const std::scoped_lock lock(mutex);
  return open_comms;
}

void fake_nccl_reset() {
  const std::scoped_lock lock(mutex);
  calls.clear();
  fault = kFakeNcclNoFault;
}

int ncclGetVersion(int* version) {
  *version = 22800;
  return kSuccess;
}

int ncclGetUniqueId(UniqueId* id) {
  static std::atomic<int> next{0};
  count("ncclGetUniqueId");
  *id = {};
  const std::string text = std::to_string(++next);
  std::ranges::copy(text, id->bytes);
  return kSuccess;
}

int ncclCommInitRankConfig(ncclComm** comm, int size, UniqueId id, int rank, void* config) {
  count("ncclCommInitRankConfig");
  unsigned magic = 0;
  std::memcpy(&magic, static_cast<char*>(config) + sizeof(std::size_t), sizeof magic);
  if (magic != 0xcafebeefU) return kInternalError;
  const std::scoped_lock lock(mutex);
  std::shared_ptr<World>& world = worlds[id.bytes];
  if (!world) world = std::make_shared<World>(size);
  ++world->joined;
  ++open_comms;
  *comm = new ncclComm;
  (*comm)->world = world;
  (*comm)->rank = rank;
  return kInProgress;
}

int ncclCommGetAsyncError(ncclComm* comm, int* state) {
  const std::scoped_lock lock(mutex);
  const bool waits = comm->world->joined < comm->world->size || comm->left > 0;
  *state = comm->failed ? kRemoteError : waits ? kInProgress : kSuccess;
  return kSuccess;
}

int ncclCommAbort(ncclComm* comm) {
  count("ncclCommAbort");
  const std::scoped_lock lock(mutex);
  --open_comms;
  aborted.emplace_back(comm);
  return kSuccess;
}

int ncclCommDestroy(ncclComm* comm) {
  count("ncclCommDestroy");
  const std::scoped_lock lock(mutex);
  --open_comms;
  delete comm;
  return kSuccess;
}

const char* ncclGetErrorString(int result) {
  return result == kRemoteError ? "remote process exited or there was a network error"
                                : "internal error";
}
const char* ncclGetLastError(ncclComm*) { return "said by the fake library"; }

int ncclGroupStart() {
  count("ncclGroupStart");
  return kSuccess;
}
int ncclGroupEnd() {
  count("ncclGroupEnd");
  return kInProgress;
}

int ncclAllReduce(const void* send, void* receive, std::size_t count, int type, int op,
                  ncclComm* comm, void*) {
  return collective(comm, "ncclAllReduce", {Kind::kAllReduce, send, receive, count, type, op, 0});
}
int ncclReduce(const void* send, void* receive, std::size_t count, int type, int op, int root,
               ncclComm* comm, void*) {
  return collective(comm, "ncclReduce", {Kind::kReduce, send, receive, count, type, op, root});
}
int ncclBroadcast(const void* send, void* receive, std::size_t count, int type, int root,
                  ncclComm* comm, void*) {
  return collective(comm, "ncclBroadcast", {Kind::kBroadcast, send, receive, count, type, 0, root});
}
int ncclAllGather(const void* send, void* receive, std::size_t count, int type, ncclComm* comm,
                  void*) {
  return collective(comm, "ncclAllGather", {Kind::kAllGather, send, receive, count, type, 0, 0});
}
int ncclReduceScatter(const void* send, void* receive, std::size_t count, int type, int op,
                      ncclComm* comm, void*) {
  return collective(comm, "ncclReduceScatter",
                    {Kind::kReduceScatter, send, receive, count, type, op, 0});
}

int ncclSend(const void* send, std::size_t count, int type, int peer, ncclComm* comm, void*) {
  return put(comm, "ncclSend", [&] {
    comm->world->sends[{comm->rank, peer}].push_back(
        {const_cast<void*>(send), count * width_of(type), &comm->left});
  });
}
int ncclRecv(void* receive, std::size_t count, int type, int peer, ncclComm* comm, void*) {
  return put(comm, "ncclRecv", [&] {
    comm->world->receives[{peer, comm->rank}].push_back(
        {receive, count * width_of(type), &comm->left});
  });
}
}
