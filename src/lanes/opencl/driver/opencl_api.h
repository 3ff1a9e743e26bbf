// The part of OpenCL 1.2 that this program uses, declared here so that its headers need not be
// installed. Numbers are those of the standard.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troika::lanes::opencl {

// Handles of OpenCL: cl_platform_id, cl_device_id, and so on.
using Platform = struct PlatformTag*;
using DeviceId = struct DeviceTag*;
using Context = struct ContextTag*;
using Queue = struct QueueTag*;
using Buffer = struct BufferTag*;
using Program = struct ProgramTag*;
using Kernel = struct KernelTag*;
using Event = struct EventTag*;

using Int = int32_t;
using UInt = uint32_t;
using Bits = uint64_t;
using ContextProblem = void (*)(const char*, const void*, size_t, void*);

inline constexpr Int kOk = 0;
inline constexpr Int kNoDevice = -1;       // CL_DEVICE_NOT_FOUND
inline constexpr Int kHostFailed = 1;      // none of OpenCL's: a task failed on the lane's cores
inline constexpr Int kNoPlatform = -1001;  // CL_PLATFORM_NOT_FOUND_KHR
// Is a status of this program, not of OpenCL: keys and values lie where a device does not see them,
// or have another type.
inline constexpr Int kForeignCache = -100001;
inline constexpr Bits kAllDevices = 0xFFFFFFFFu;
inline constexpr Bits kIsCpu = 1u << 1;
// Are bits of kFloatAbilities: sums, products and whole numbers round to the nearest float, unless
// a kernel says otherwise; divisions round as IEEE 754 says.
inline constexpr Bits kRoundsToNearest = 1u << 2;
inline constexpr Bits kRoundsDivisions = 1u << 7;

enum PlatformInfo : UInt { kPlatformName = 0x0902 };
enum DeviceInfo : UInt {
  kDeviceType = 0x1000,
  kMostGroupItems = 0x1004,
  kMostGroupSides = 0x1005,
  kMostAllocationBytes = 0x1010,
  kFloatAbilities = 0x101B,
  kMemoryBytes = 0x101F,
  kIsLittleEndian = 0x1026,
  kIsAvailable = 0x1027,
  kHasCompiler = 0x1028,
  kDeviceName = 0x102B,
  kDriverVersion = 0x102D,
  kDeviceVersion = 0x102F,
  kDeviceExtensions = 0x1030,
  kSharesMemory = 0x1035,
};
enum ProgramInfo : UInt { kBinarySizes = 0x1165, kBinaries = 0x1166 };
enum BuildInfo : UInt { kBuildLog = 0x1183 };
enum EventInfo : UInt { kEventStatus = 0x11D3 };
enum MemoryFlags : Bits {
  kReadWrite = 1u << 0,
  kReadOnly = 1u << 2,
  kUseHostPointer = 1u << 3,
  kAllocateForHost = 1u << 4,
  kCopyHostPointer = 1u << 5,
};
enum MapFlags : Bits { kMapRead = 1u << 0, kMapWrite = 1u << 1 };
inline constexpr Int kComplete = 0;  // the state of an event that is done; less is an error

struct Api {
  Int (*platforms)(UInt, Platform*, UInt*);
  Int (*platform_info)(Platform, UInt, size_t, void*, size_t*);
  Int (*devices)(Platform, Bits, UInt, DeviceId*, UInt*);
  Int (*device_info)(DeviceId, UInt, size_t, void*, size_t*);

  Context (*create_context)(const intptr_t*, UInt, const DeviceId*, ContextProblem, void*, Int*);
  Int (*release_context)(Context);
  Queue (*create_queue)(Context, DeviceId, Bits, Int*);
  Int (*release_queue)(Queue);
  Int (*flush)(Queue);
  Int (*finish)(Queue);

  Buffer (*create_buffer)(Context, Bits, size_t, void*, Int*);
  Int (*release_buffer)(Buffer);
  void* (*map)(Queue, Buffer, UInt is_blocking, Bits, size_t, size_t, UInt, const Event*, Event*,
               Int*);
  Int (*unmap)(Queue, Buffer, void*, UInt, const Event*, Event*);

  Program (*create_program)(Context, UInt, const char**, const size_t*, Int*);
  Program (*import_program)(Context, UInt, const DeviceId*, const size_t*, const unsigned char**,
                            Int*, Int*);
  Int (*build_program)(Program, UInt, const DeviceId*, const char*, void (*)(Program, void*),
                       void*);
  Int (*program_info)(Program, UInt, size_t, void*, size_t*);
  Int (*build_info)(Program, DeviceId, UInt, size_t, void*, size_t*);
  Int (*release_program)(Program);

  Kernel (*create_kernel)(Program, const char*, Int*);
  Int (*release_kernel)(Kernel);
  Int (*set_argument)(Kernel, UInt, size_t, const void*);
  Int (*run_kernel)(Queue, Kernel, UInt, const size_t*, const size_t*, const size_t*, UInt,
                    const Event*, Event*);

  Int (*marker)(Queue, UInt, const Event*, Event*);
  Int (*wait)(UInt, const Event*);
  Int (*tell)(Event, Int state, void (*)(Event, Int state, void*), void*);
  Int (*event_info)(Event, UInt, size_t, void*, size_t*);
  Int (*release_event)(Event);
};

}  // namespace troika::lanes::opencl
