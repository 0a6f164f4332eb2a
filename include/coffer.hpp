/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer.hpp - coffer.h for C++17 and later: objects that release themselves, spans, and exceptions.
 *
 * All of it is inline and none of it has a thought of its own: what a function does, costs and refuses is said in
 * coffer.h, at the function of the same name. Where C takes a `coffer_*` struct of options, so does C++; `nullptr`
 * stands for the defaults. What cannot fail and hands out nothing to be released, such as coffer_version and
 * coffer_dtype_bits, is called as it is.
 *
 *   - Failure: every function that can fail throws cofferpp::error, which carries all that a coffer_error has. Nothing
 *     else is thrown but std::bad_alloc. An object whose constructor threw left nothing behind.
 *   - Ownership: model, header, writer, model_writer, rewrite, lora, extraction, addition, input, imported, hasher,
 *     manifest, diagnosis, device, plan, staging, load, loaded, cache_server and buffer own what they hold; they can be
 *     moved and not copied, and one that was moved from can only be assigned to or go. A tensor and every span are
 *     borrowed, from the model that they came from, which may be moved in the meantime, but must outlive them.
 *   - Threads: as in coffer.h. Callbacks given in options or in a coffer_source must not throw.
 *   - Numbers: the bytes of a file are little-endian. Functions that take or give numbers of a type T exist where the
 *     machine is, too; they refuse a T that is not the tensor's dtype, but for std::byte, char and unsigned char, which
 *     are any dtype's bytes. tensor::decode works everywhere and with every dtype.
 *
 * The namespace is not `coffer`, because in C that is the type of an opened model.
 */
#ifndef COFFER_HPP
#define COFFER_HPP

#include "coffer.h"

#include <complex>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>
#if defined(__cpp_lib_span) || (__cplusplus >= 202002L && __has_include(<span>))
#include <span>
#endif

namespace cofferpp
{

/* ---- Spans ------------------------------------------------------------------------------------------------------- */

#if defined(__cpp_lib_span)
template <class T> using span = std::span<T>;
#else
/* As much of C++20's std::span as this header needs; with C++20 it is that. */
template <class T> class span
{
public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    using iterator = T *;

    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <std::size_t N> constexpr span(T (&array)[N]) noexcept : data_(array), size_(N) {}
    /* Of anything contiguous; of something that will be gone after the statement only to read from it. */
    template <class Container, class Element = std::remove_pointer_t<decltype(std::data(std::declval<Container &>()))>,
              class = std::enable_if_t<std::is_convertible_v<Element (*)[], T (*)[]> &&
                                       !std::is_array_v<std::remove_reference_t<Container>> &&
                                       (std::is_lvalue_reference_v<Container> || std::is_const_v<T>)>>
    constexpr span(Container &&container) noexcept : data_(std::data(container)), size_(std::size(container))
    {
    }

    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t i) const { return data_[i]; }
    constexpr span subspan(std::size_t offset, std::size_t count) const { return span(data_ + offset, count); }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};
#endif

/* ---- Failing ----------------------------------------------------------------------------------------------------- */

/* What went wrong, where, and what to do. what() is the message with the path in front of it. */
class error : public std::runtime_error
{
public:
    explicit error(const coffer_error &fields) : std::runtime_error(text_of(fields)), fields_(fields) {}

    coffer_status code() const noexcept { return fields_.code; }
    /* The code's name, "DATA_TRUNCATED". */
    const char *name() const noexcept { return coffer_status_name(fields_.code); }
    const char *message() const noexcept { return fields_.message; }
    const char *path() const noexcept { return fields_.path; }
    const char *tensor() const noexcept { return fields_.tensor; }
    /* The byte of the file where the trouble is. */
    std::optional<std::uint64_t> offset() const noexcept
    {
        return fields_.offset == COFFER_NO_OFFSET ? std::nullopt : std::optional<std::uint64_t>(fields_.offset);
    }
    std::uint64_t expected() const noexcept { return fields_.expected; }
    std::uint64_t actual() const noexcept { return fields_.actual; }
    int os_error() const noexcept { return fields_.os_error; }
    int http_status() const noexcept { return fields_.http_status; }
    const coffer_error &fields() const noexcept { return fields_; }

private:
    static std::string text_of(const coffer_error &fields)
    {
        return fields.path[0] == '\0' ? std::string(fields.message) : std::string(fields.path) + ": " + fields.message;
    }

    coffer_error fields_;
};

/* Text that is safe on a terminal, of a name for one. */
inline std::string escape(std::string_view text)
{
    std::string safe(coffer_escape(text.data(), text.size(), nullptr, 0), '\0');
    (void)coffer_escape(text.data(), text.size(), safe.data(), safe.size() + 1);
    return safe;
}

namespace detail
{

/* Calls a function that takes a coffer_error last, and throws what it fails with. */
template <class... Parameters, class... Arguments>
void call(coffer_status (*function)(Parameters...), Arguments... arguments)
{
    coffer_error err;
    if (function(arguments..., &err) != COFFER_OK) {
        throw error(err);
    }
}

/* The same for one that hands out a new object first. */
template <class Object, class... Parameters, class... Arguments>
Object *make(coffer_status (*function)(Object **, Parameters...), Arguments... arguments)
{
    Object *made = nullptr;
    call(function, &made, arguments...);
    return made;
}

/* A failure that this header finds itself. */
[[noreturn]] inline void fail(coffer_status code, std::string_view message, const coffer_tensor *tensor = nullptr)
{
    coffer_error err{};
    err.code = code;
    err.offset = COFFER_NO_OFFSET;
    message.copy(err.message, sizeof err.message - 1);
    if (tensor != nullptr) {
        (void)coffer_escape(tensor->name, tensor->name_len, err.tensor, sizeof err.tensor);
    }
    throw error(err);
}

/* A size in memory; where pointers are short, a file may hold more than fits. */
inline std::size_t memory_size(std::uint64_t size)
{
    if (size > SIZE_MAX) {
        fail(COFFER_ERR_MEMORY, "more bytes than this machine can have in memory");
    }
    return static_cast<std::size_t>(size);
}

/* Text that is there and empty, where nullptr would mean that it is not there. */
inline const char *present(std::string_view text) noexcept
{
    return text.data() == nullptr ? "" : text.data();
}
inline const char *present(const std::optional<std::string_view> &text) noexcept
{
    return text ? present(*text) : nullptr;
}

template <auto Release> struct release {
    template <class T> void operator()(T *object) const noexcept { Release(object); }
};
template <class T, auto Release> using handle = std::unique_ptr<T, release<Release>>;

/* The dtype of a C++ type; COFFER_UNKNOWN_DTYPE for the bytes of any. */
template <class T> constexpr coffer_dtype dtype_of() noexcept
{
    if constexpr (std::is_same_v<T, float>) {
        return COFFER_F32;
    } else if constexpr (std::is_same_v<T, double>) {
        return COFFER_F64;
    } else if constexpr (std::is_same_v<T, std::complex<float>>) {
        return COFFER_C64;
    } else if constexpr (std::is_same_v<T, std::byte> || std::is_same_v<T, char> || std::is_same_v<T, unsigned char>) {
        return COFFER_UNKNOWN_DTYPE;
    } else {
        static_assert(std::is_integral_v<T> && !std::is_same_v<T, bool>, "no dtype holds values of this type");
        constexpr bool is_signed = std::is_signed_v<T>;
        return sizeof(T) == 1   ? (is_signed ? COFFER_I8 : COFFER_U8)
               : sizeof(T) == 2 ? (is_signed ? COFFER_I16 : COFFER_U16)
               : sizeof(T) == 4 ? (is_signed ? COFFER_I32 : COFFER_U32)
                                : (is_signed ? COFFER_I64 : COFFER_U64);
    }
}

/* Refuses elements that are not of type T; `tensor` may be nullptr, when it is not known yet. */
template <class T> void require_dtype(coffer_dtype dtype, const coffer_tensor *tensor)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    static_assert(sizeof(T) == 1, "the file's numbers are little-endian, this machine's are not: use tensor::decode");
#endif
    constexpr coffer_dtype wanted = dtype_of<T>();
    if (wanted != COFFER_UNKNOWN_DTYPE && dtype != wanted) {
        const char *held = tensor != nullptr ? coffer_tensor_dtype_name(tensor) : coffer_dtype_name(dtype);
        fail(COFFER_ERR_ARGUMENT, std::string("the tensor holds ") + held + ", not " + coffer_dtype_name(wanted),
             tensor);
    }
}

} // namespace detail

/* ---- Memory and slices ------------------------------------------------------------------------------------------- */

/* Memory from coffer_buffer_new: what is read into it fastest. */
class buffer
{
public:
    buffer() noexcept = default;
    explicit buffer(std::size_t size)
        : data_(static_cast<std::byte *>(coffer_buffer_new(size == 0 ? 1 : size))), size_(size)
    {
        if (data_ == nullptr) {
            throw std::bad_alloc();
        }
    }
    buffer(buffer &&other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0))
    {
    }
    buffer &operator=(buffer &&other) noexcept
    {
        buffer old(std::move(*this));
        data_ = std::exchange(other.data_, nullptr);
        size_ = std::exchange(other.size_, 0);
        return *this;
    }
    ~buffer() { coffer_buffer_free(data_, size_ == 0 ? 1 : size_); }

    std::byte *data() noexcept { return data_; }
    const std::byte *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    std::byte *begin() noexcept { return data_; }
    const std::byte *begin() const noexcept { return data_; }
    std::byte *end() noexcept { return data_ + size_; }
    const std::byte *end() const noexcept { return data_ + size_; }
    /* The memory as elements of a type, which the caller knows. */
    template <class T> span<const T> as() const noexcept
    {
        return { reinterpret_cast<const T *>(data_), size_ / sizeof(T) };
    }

private:
    std::byte *data_ = nullptr;
    std::size_t size_ = 0;
};

/* Numbers as elements of a float dtype, to be written; tensor::decode is the other way. */
inline buffer encode(coffer_dtype dtype, span<const double> values)
{
    buffer bytes(values.size() * (coffer_dtype_bits(dtype) / 8));
    if (coffer_encode(dtype, values.data(), values.size(), bytes.data()) != COFFER_OK) {
        detail::fail(COFFER_ERR_ARGUMENT, "numbers are encoded as F16, BF16, F32, F64 or F8_E5M2 only");
    }
    return bytes;
}

/* Which part of a tensor is meant: Python's slices, as text or piece by piece.
       cofferpp::slice("0, :4")    cofferpp::slice{cofferpp::slice::at(0), cofferpp::slice::range(0, 4)} */
class slice
{
public:
    slice(std::initializer_list<coffer_index> indices) : indices_(indices) {}
    explicit slice(std::string_view text) : indices_(8)
    {
        coffer_error err;
        std::size_t count = indices_.size();
        coffer_status status = coffer_slice_parse(text.data(), text.size(), indices_.data(), &count, &err);
        if (status == COFFER_ERR_BUFFER_SIZE) {
            indices_.resize(detail::memory_size(err.expected));
            count = indices_.size();
            status = coffer_slice_parse(text.data(), text.size(), indices_.data(), &count, &err);
        }
        if (status != COFFER_OK) {
            throw error(err);
        }
        indices_.resize(count);
    }

    static coffer_index all() noexcept { return make(COFFER_INDEX_ALL, {}, {}, 1); }
    static coffer_index ellipsis() noexcept { return make(COFFER_INDEX_ELLIPSIS, {}, {}, 1); }
    static coffer_index at(std::int64_t i) noexcept { return make(COFFER_INDEX_AT, i, {}, 1); }
    /* start:stop:step, of which start and stop may be left out by std::nullopt. */
    static coffer_index range(std::optional<std::int64_t> start, std::optional<std::int64_t> stop,
                              std::int64_t step = 1) noexcept
    {
        return make(COFFER_INDEX_RANGE, start, stop, step);
    }

    span<const coffer_index> indices() const noexcept { return indices_; }

private:
    static coffer_index make(coffer_index_kind kind, std::optional<std::int64_t> start,
                             std::optional<std::int64_t> stop, std::int64_t step) noexcept
    {
        coffer_index index{};
        index.kind = kind;
        index.has_start = start.has_value();
        index.has_stop = stop.has_value();
        index.start = start.value_or(0);
        index.stop = stop.value_or(0);
        index.step = step;
        return index;
    }

    std::vector<coffer_index> indices_;
};

/* ---- Digests ----------------------------------------------------------------------------------------------------- */

/* Computes digests of bytes that come in pieces, one after the other. */
class hasher
{
public:
    explicit hasher(coffer_algorithm algorithm)
        : algorithm_(algorithm), self_(detail::make(coffer_hasher_new, algorithm, nullptr))
    {
    }

    /* A text, of a literal without its NUL, or anything else that is contiguous bytes. */
    template <class Container> void update(const Container &bytes)
    {
        if constexpr (std::is_convertible_v<const Container &, std::string_view>) {
            const std::string_view text = bytes;
            detail::call(coffer_hasher_update, get(), text.data(), text.size());
        } else {
            static_assert(sizeof(*std::data(bytes)) == 1, "digests are of bytes: numbers differ between machines");
            detail::call(coffer_hasher_update, get(), std::data(bytes), std::size(bytes));
        }
    }
    /* The digest of all bytes since the last one. */
    std::vector<std::uint8_t> finish()
    {
        std::vector<std::uint8_t> digest(coffer_algorithm_digest_size(algorithm_));
        detail::call(coffer_hasher_finish, get(), digest.data(), digest.size());
        return digest;
    }

    coffer_hasher *get() const noexcept { return self_.get(); }

private:
    coffer_algorithm algorithm_;
    detail::handle<coffer_hasher, coffer_hasher_free> self_;
};

/* ---- Models ------------------------------------------------------------------------------------------------------ */

/* A tensor of an opened model: a view, to be copied as one likes. */
class tensor
{
public:
    tensor(const coffer *model, const coffer_tensor *self) noexcept : model_(model), self_(self) {}

    std::string_view name() const noexcept { return { self_->name, self_->name_len }; }
    coffer_dtype dtype() const noexcept { return self_->dtype; }
    std::string_view dtype_name() const noexcept { return coffer_tensor_dtype_name(self_); }
    span<const std::uint64_t> shape() const noexcept { return { self_->shape, self_->rank }; }
    std::uint64_t elements() const noexcept { return coffer_tensor_elements(self_); }
    std::uint64_t size() const noexcept { return self_->size; }
    std::uint64_t offset() const noexcept { return self_->offset; }
    std::uint32_t shard() const noexcept { return self_->shard; }
    const coffer_tensor *get() const noexcept { return self_; }
    const coffer *model() const noexcept { return model_; }

    /* The bytes where they lie, without a copy. */
    span<const std::byte> data() const { return bytes_of<const std::byte>(coffer_data); }
    /* The same, to be changed in memory: of a model that was opened with COFFER_MAP_PRIVATE. */
    span<std::byte> data_mutable() const { return bytes_of<std::byte>(coffer_data_mutable); }
    bool is_aligned() const noexcept { return coffer_is_aligned(model_, self_); }
    /* False only in a model that was opened with the option `partial`: the tensor's bytes cannot be read then. */
    bool is_whole() const noexcept { return coffer_is_whole(model_, self_); }
    /* The same as numbers. COFFER_ERR_UNSUPPORTED where they are not aligned, as files of other programs may have them;
       values() copies and does not mind. */
    template <class T> span<const T> as() const
    {
        detail::require_dtype<T>(self_->dtype, self_);
        const auto bytes = data();
        if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(T) != 0) {
            detail::fail(COFFER_ERR_UNSUPPORTED, "the tensor is not aligned in its file: read a copy of it", self_);
        }
        return { reinterpret_cast<const T *>(bytes.data()), bytes.size() / sizeof(T) };
    }

    /* Reads into memory of exactly the right size. */
    void read(span<std::byte> place, const coffer_read_options *options = nullptr) const
    {
        detail::call(coffer_read, model_, self_, place.data(), place.size(), options);
    }
    void read(const slice &part, span<std::byte> place, const coffer_read_options *options = nullptr) const
    {
        const auto indices = part.indices();
        detail::call(coffer_read_slice, model_, self_, indices.data(), indices.size(), place.data(), place.size(),
                     options);
    }
    /* Reads as many bytes as there is place for, from the tensor's byte `offset` on. */
    void read_part(std::uint64_t offset, span<std::byte> place, const coffer_read_options *options = nullptr) const
    {
        detail::call(coffer_read_part, model_, self_, offset, place.data(), place.size(), options);
    }
    /* Reads into new memory. */
    buffer read(const coffer_read_options *options = nullptr) const
    {
        buffer place(detail::memory_size(self_->size));
        read(place, options);
        return place;
    }
    buffer read(const slice &part, const coffer_read_options *options = nullptr) const
    {
        buffer place(detail::memory_size(size_of(part)));
        read(part, place, options);
        return place;
    }
    /* Reads into a vector of numbers, which is the most convenient way and not the fastest: they are filled twice. */
    template <class T> std::vector<T> values() const { return values<T>(slice{}); }
    template <class T> std::vector<T> values(const slice &part) const
    {
        detail::require_dtype<T>(self_->dtype, self_);
        std::vector<T> numbers(detail::memory_size(size_of(part)) / sizeof(T));
        read(part, span<std::byte>(reinterpret_cast<std::byte *>(numbers.data()), numbers.size() * sizeof(T)));
        return numbers;
    }
    /* Any dtype's elements as doubles; complex ones are two each. */
    std::vector<double> decode() const { return decode(slice{}); }
    std::vector<double> decode(const slice &part) const
    {
        const buffer bytes = read(part);
        std::size_t count = 1;
        for (const std::uint64_t dimension : shape_of(part)) {
            count *= static_cast<std::size_t>(dimension);
        }
        std::vector<double> numbers(coffer_dtype_kind(dtype()) == COFFER_KIND_COMPLEX ? 2 * count : count);
        if (coffer_decode(dtype(), bytes.data(), 0, count, numbers.data()) != COFFER_OK) {
            detail::fail(COFFER_ERR_ARGUMENT, "elements of an unknown dtype cannot be decoded", self_);
        }
        return numbers;
    }

    coffer_digest digest(coffer_algorithm algorithm, const coffer_digest_options *options = nullptr) const
    {
        coffer_digest found;
        detail::call(coffer_digest_tensors, model_, &self_, std::size_t{ 1 }, algorithm, &found, options);
        return found;
    }
    /* Throws when the tensor is not the one whose digest its file records. */
    void verify(const coffer_digest_options *options = nullptr) const
    {
        detail::call(coffer_verify, model_, &self_, std::size_t{ 1 }, nullptr, options);
    }

    /* What a slice of this tensor will be, before it is read. */
    std::vector<std::uint64_t> shape_of(const slice &part) const
    {
        std::vector<std::uint64_t> shape(self_->rank);
        std::size_t rank = 0;
        plan(part, shape.data(), &rank, nullptr);
        shape.resize(rank);
        return shape;
    }
    std::uint64_t size_of(const slice &part) const
    {
        std::uint64_t size = 0;
        plan(part, nullptr, nullptr, &size);
        return size;
    }

private:
    template <class Byte, class Bytes>
    span<Byte> bytes_of(Bytes *(*function)(const coffer *, const coffer_tensor *, coffer_error *)) const
    {
        coffer_error err;
        Bytes *bytes = function(model_, self_, &err);
        if (bytes == nullptr) {
            throw error(err);
        }
        return { static_cast<Byte *>(bytes), detail::memory_size(self_->size) };
    }
    void plan(const slice &part, std::uint64_t *shape, std::size_t *rank, std::uint64_t *size) const
    {
        const auto indices = part.indices();
        detail::call(coffer_slice_shape, self_, indices.data(), indices.size(), shape, rank, size);
    }

    const coffer *model_;
    const coffer_tensor *self_;
};

class input;
class imported;

/* An opened model. */
class model
{
public:
    explicit model(const std::string &path, const coffer_open_options *options = nullptr)
        : self_(detail::make(coffer_open, path.c_str(), options))
    {
    }
    /* A file that is already in memory; borrowed. */
    explicit model(span<const std::byte> bytes, const coffer_open_options *options = nullptr)
        : self_(detail::make(coffer_open_memory, bytes.data(), bytes.size(), options))
    {
    }
    /* A range of an open file, to its end if not said otherwise. */
    explicit model(int fd, std::uint64_t offset = 0, std::uint64_t size = UINT64_MAX,
                   const coffer_open_options *options = nullptr)
        : self_(detail::make(coffer_open_fd, fd, offset, size, options))
    {
    }
    explicit model(const coffer_source &source, const coffer_open_options *options = nullptr)
        : self_(detail::make(coffer_open_source, &source, options))
    {
    }
    /* An import, which the model takes over with its input, also by a failure. */
    model(input &&from, imported &&of, const coffer_open_options *options = nullptr);
    /* The import that it was opened from; nullptr: it is of a file of tensors. */
    coffer_import *import_of() const noexcept { return coffer_model_import(get()); }

    std::size_t size() const noexcept { return coffer_count(get()); }
    bool empty() const noexcept { return size() == 0; }
    /* Tensor `i`, below size(), in the order of their place in the file. */
    tensor operator[](std::size_t i) const & { return { get(), coffer_at(get(), i) }; }
    std::optional<tensor> find(std::string_view name) const &
    {
        const coffer_tensor *found = coffer_find(get(), detail::present(name), name.size());
        return found == nullptr ? std::nullopt : std::optional<tensor>(tensor(get(), found));
    }
    /* The tensor of that name; COFFER_ERR_NO_TENSOR when there is none. */
    tensor at(std::string_view name) const &
    {
        const std::optional<tensor> found = find(name);
        if (!found) {
            coffer_tensor wanted{};
            wanted.name = detail::present(name);
            wanted.name_len = static_cast<std::uint32_t>(name.size());
            detail::fail(COFFER_ERR_NO_TENSOR, "the model has no tensor of this name", &wanted);
        }
        return *found;
    }
    /* A tensor of a model that is gone after the statement would be of no use. */
    tensor operator[](std::size_t i) const && = delete;
    std::optional<tensor> find(std::string_view name) const && = delete;
    tensor at(std::string_view name) const && = delete;

    class iterator
    {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = tensor;
        using difference_type = std::ptrdiff_t;
        using pointer = void;
        using reference = tensor;

        iterator(const coffer *owner, std::size_t i) noexcept : owner_(owner), i_(i) {}
        tensor operator*() const noexcept { return { owner_, coffer_at(owner_, i_) }; }
        iterator &operator++() noexcept
        {
            i_++;
            return *this;
        }
        iterator operator++(int) noexcept { return { owner_, i_++ }; }
        bool operator==(const iterator &other) const noexcept { return i_ == other.i_; }
        bool operator!=(const iterator &other) const noexcept { return i_ != other.i_; }

    private:
        const coffer *owner_;
        std::size_t i_;
    };
    iterator begin() const noexcept { return { get(), 0 }; }
    iterator end() const noexcept { return { get(), size() }; }

    /* The numbers for operator[] in byte order of the names. */
    std::vector<std::uint32_t> sorted_by_name() const
    {
        std::vector<std::uint32_t> order(size());
        coffer_sort_by_name(get(), order.data());
        return order;
    }

    std::size_t shard_count() const noexcept { return coffer_shard_count(get()); }
    /* Bytes of a shard's file; 0 when there is none of that number. */
    std::uint64_t shard_size(std::size_t shard = 0) const noexcept { return coffer_shard_size(get(), shard); }
    /* What a shard's header says, for coffer_table_format, coffer_table_slack and their kin. */
    const coffer_table *table(std::size_t shard = 0) const
    {
        const coffer_table *found = coffer_shard_table(get(), shard);
        if (found == nullptr) {
            detail::fail(COFFER_ERR_ARGUMENT, "the model has no shard of this number");
        }
        return found;
    }
    /* A shard's file as it was given, or as the index names it; "" when there is none. */
    std::string_view path(std::size_t shard = 0) const noexcept { return coffer_shard_path(get(), shard); }
    /* What the index, if there is one, has as its metadata: a JSON object, or "". */
    std::optional<std::string_view> index_metadata() const noexcept
    {
        std::size_t length = 0;
        const char *text = coffer_index_metadata(get(), &length);
        return text == nullptr ? std::nullopt : std::optional<std::string_view>(std::string_view(text, length));
    }
    /* The index's path and its whole text; "" when there is none. */
    std::string_view index_path() const noexcept { return coffer_index_path(get()); }
    std::string_view index_text() const noexcept
    {
        std::size_t length = 0;
        const void *text = coffer_index_text(get(), &length);
        return text == nullptr ? std::string_view() : std::string_view(static_cast<const char *>(text), length);
    }
    /* The header of a shard's file, byte for byte; see coffer_read_header. */
    std::vector<std::uint8_t> header(std::size_t shard = 0, const coffer_read_options *options = nullptr) const
    {
        std::vector<std::uint8_t> bytes(static_cast<std::size_t>(coffer_table_data_offset(table(shard))));
        detail::call(coffer_read_header, get(), shard, bytes.data(), bytes.size(), options);
        return bytes;
    }
    /* A kind of note over all shards, and the name of the first tensor or file that it is about, or "". */
    std::pair<coffer_note, std::string_view> note(coffer_note_kind kind) const noexcept
    {
        const char *subject = "";
        const coffer_note seen = coffer_model_note(get(), kind, &subject);
        return { seen, subject };
    }
    /* The value of a key in the metadata of a shard. */
    std::optional<std::string_view> metadata(std::string_view key, std::size_t shard = 0) const
    {
        std::size_t length = 0;
        const char *value = coffer_table_metadata_get(table(shard), detail::present(key), key.size(), &length);
        return value == nullptr ? std::nullopt : std::optional<std::string_view>(std::string_view(value, length));
    }
    /* All of them, by key. */
    std::vector<std::pair<std::string_view, std::string_view>> metadata(std::size_t shard = 0) const
    {
        std::vector<std::pair<std::string_view, std::string_view>> pairs;
        coffer_pair pair;
        for (std::size_t i = 0; coffer_table_metadata_at(table(shard), i, &pair); i++) {
            pairs.emplace_back(std::string_view(pair.key, pair.key_len), std::string_view(pair.value, pair.value_len));
        }
        return pairs;
    }

    /* Reads many tensors in one go; see coffer_read_many. */
    void read(span<const coffer_read_target> targets, const coffer_read_options *options = nullptr) const
    {
        detail::call(coffer_read_many, get(), targets.data(), targets.size(), options);
    }

    /* The digests of all tensors, in their order; or of some. */
    std::vector<coffer_digest> digests(coffer_algorithm algorithm, const coffer_digest_options *options = nullptr) const
    {
        return digest(nullptr, size(), algorithm, options);
    }
    std::vector<coffer_digest> digests(span<const coffer_tensor *const> tensors, coffer_algorithm algorithm,
                                       const coffer_digest_options *options = nullptr) const
    {
        return digest(listed(tensors), tensors.size(), algorithm, options);
    }
    /* From the digests of all tensors, that of the model's content. */
    std::vector<std::uint8_t> content_digest(span<const coffer_digest> digests, coffer_algorithm algorithm) const
    {
        require_count(digests.size(), size());
        std::vector<std::uint8_t> content(coffer_algorithm_digest_size(algorithm));
        detail::call(coffer_digest_content, get(), digests.data(), algorithm, content.data(), content.size());
        return content;
    }
    coffer_algorithm recorded_algorithm(std::size_t shard = 0) const noexcept
    {
        return coffer_recorded_algorithm(get(), shard);
    }
    coffer_algorithm recorded_content() const noexcept { return coffer_recorded_content(get()); }
    /* Throws when not everything is what the files' digests say, after `sound` has an answer for each tensor. */
    void verify(const coffer_digest_options *options = nullptr) const { verify(nullptr, size(), {}, options); }
    void verify(span<bool> sound, const coffer_digest_options *options = nullptr) const
    {
        require_count(sound.size(), size());
        verify(nullptr, size(), sound, options);
    }
    /* The same for some tensors; an empty `sound` is not wanted. */
    void verify(span<const coffer_tensor *const> tensors, span<bool> sound = {},
                const coffer_digest_options *options = nullptr) const
    {
        if (!sound.empty()) {
            require_count(sound.size(), tensors.size());
        }
        verify(listed(tensors), tensors.size(), sound, options);
    }

    /* Counts by the text of a config.json; if not said otherwise, of the one next to the model. */
    coffer_parameters count_parameters(std::optional<std::string_view> config = std::nullopt) const
    {
        coffer_parameters counts;
        const std::size_t length = config ? config->size() : 0;
        detail::call(coffer_count_parameters, get(), detail::present(config), length, &counts);
        return counts;
    }

    /* Downloads or copies the model into a folder that exists; or files with some of its tensors only. */
    void fetch(const std::string &folder, const coffer_fetch_options *options = nullptr) const
    {
        detail::call(coffer_fetch, get(), nullptr, size(), folder.c_str(), options);
    }
    void fetch(const std::string &folder, span<const coffer_tensor *const> tensors,
               const coffer_fetch_options *options = nullptr) const
    {
        detail::call(coffer_fetch, get(), listed(tensors), tensors.size(), folder.c_str(), options);
    }

    /* Packs file `shard` into a new one, or says what that would come to, with nullptr for the path. */
    coffer_pack_result pack(std::size_t shard, const char *path, const coffer_pack_options *options = nullptr) const
    {
        coffer_pack_result result = {};
        detail::call(coffer_pack_shard, get(), shard, path, options, &result);
        return result;
    }
    /* Writes the original of a packed file. */
    void unpack(std::size_t shard, const std::string &path, const coffer_pack_options *options = nullptr) const
    {
        detail::call(coffer_unpack_shard, get(), shard, path.c_str(), options);
    }
    /* Compares the SHA-256 of what was packed with the one that the packed file records. */
    void verify_packed(std::size_t shard = 0, const coffer_digest_options *options = nullptr) const
    {
        detail::call(coffer_verify_packed, get(), shard, options);
    }

    coffer *get() const noexcept { return self_.get(); }

private:
    static void require_count(std::size_t given, std::size_t wanted)
    {
        if (given != wanted) {
            detail::fail(COFFER_ERR_ARGUMENT, "there has to be one entry for each tensor");
        }
    }
    /* A list that is empty is not nullptr, which would be all tensors. */
    static const coffer_tensor *const *listed(span<const coffer_tensor *const> tensors) noexcept
    {
        static constexpr const coffer_tensor *nobody = nullptr;
        return tensors.empty() ? &nobody : tensors.data();
    }
    std::vector<coffer_digest> digest(const coffer_tensor *const *tensors, std::size_t count,
                                      coffer_algorithm algorithm, const coffer_digest_options *options) const
    {
        std::vector<coffer_digest> found(count);
        detail::call(coffer_digest_tensors, get(), tensors, count, algorithm, found.data(), options);
        return found;
    }
    void verify(const coffer_tensor *const *tensors, std::size_t count, span<bool> sound,
                const coffer_digest_options *options) const
    {
        detail::call(coffer_verify, get(), tensors, count, sound.empty() ? nullptr : sound.data(), options);
    }

    detail::handle<coffer, coffer_close> self_;
};

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

/* A header under construction. */
class header
{
public:
    header() : self_(detail::make(coffer_header_new, nullptr)) {}

    /* Declares a tensor and returns its number. */
    std::size_t add(std::string_view name, coffer_dtype dtype, span<const std::uint64_t> shape)
    {
        dtypes_.resize(size()); /* one more than there are tensors, when the last one was refused */
        dtypes_.push_back(dtype);
        detail::call(coffer_header_add, get(), name.data(), name.size(), dtype, shape.data(), shape.size());
        return size() - 1;
    }
    std::size_t add(std::string_view name, coffer_dtype dtype, std::initializer_list<std::uint64_t> shape)
    {
        return add(name, dtype, span<const std::uint64_t>(shape.begin(), shape.size()));
    }
    void set_metadata(std::string_view key, std::string_view value)
    {
        detail::call(coffer_header_set_metadata, get(), key.data(), key.size(), value.data(), value.size());
    }
    /* Makes space for digests in the metadata, when everything is declared; a writer does so itself. */
    void reserve_digests(coffer_algorithm algorithm) { detail::call(coffer_header_reserve_digests, get(), algorithm); }
    /* Lays the file out; returns its first bytes, borrowed. Nothing can be declared afterwards. */
    span<const std::byte> build(const coffer_header_options *options = nullptr)
    {
        const void *bytes = nullptr;
        std::uint64_t size = 0;
        detail::call(coffer_header_build, get(), options, &bytes, &size, nullptr);
        return { static_cast<const std::byte *>(bytes), detail::memory_size(size) };
    }
    std::size_t size() const noexcept { return coffer_header_count(get()); }
    /* Where tensor `i` of the declaration will be; nullptr before the header is built. */
    const coffer_tensor *at(std::size_t i) const noexcept { return coffer_header_at(get(), i); }
    /* What it was declared with; COFFER_UNKNOWN_DTYPE when `i` is not below size(). */
    coffer_dtype dtype(std::size_t i) const noexcept { return i < size() ? dtypes_[i] : COFFER_UNKNOWN_DTYPE; }

    coffer_header *get() const noexcept { return self_.get(); }

private:
    std::vector<coffer_dtype> dtypes_; /* which the library tells only of a header that is built */
    detail::handle<coffer_header, coffer_header_free> self_;
};

namespace detail
{

/* What is the same for one file and for a model of several. */
template <class Object, auto Free, auto Write, auto Copy, auto Finish> class writing
{
public:
    writing(writing &&) noexcept = default;
    /* The writer that was here goes before the header that it uses. */
    writing &operator=(writing &&other) noexcept
    {
        self_ = std::move(other.self_);
        header_ = std::move(other.header_);
        return *this;
    }

    /* Writes numbers, or bytes, of tensor `i` of the declaration, from its byte `offset` on. */
    template <class Container> void write(std::size_t i, const Container &values, std::uint64_t offset = 0)
    {
        using element = std::remove_cv_t<std::remove_pointer_t<decltype(std::data(values))>>;
        if (i < header_.size()) { /* else the library refuses the number */
            require_dtype<element>(header_.dtype(i), header_.at(i));
        }
        call(Write, get(), i, offset, std::data(values), std::size(values) * sizeof(element));
    }
    /* Writes tensor `i` of the declaration with the bytes of one of a model; or many, which is faster in one go. */
    void copy(std::size_t i, const tensor &source, const coffer_read_options *options = nullptr)
    {
        const coffer_copy one[] = { { i, source.model(), source.get() } };
        copy(one, options);
    }
    void copy(span<const coffer_copy> copies, const coffer_read_options *options = nullptr)
    {
        call(Copy, get(), copies.data(), copies.size(), options);
    }
    /* Publishes what was written when every byte of it was. */
    void finish() { call(Finish, get()); }

    const header &declared() const noexcept { return header_; }
    Object *get() const noexcept { return self_.get(); }

protected:
    template <class... Parameters, class... Arguments>
    writing(header declared, coffer_status (*open)(Object **, Parameters...), Arguments... arguments)
        : header_(std::move(declared)), self_(make(open, header_.get(), arguments...))
    {
    }
    ~writing() = default;

private:
    header header_;
    handle<Object, Free> self_; /* last, so that it goes first */
};

} // namespace detail

/* A file being written. One that goes away before finish() leaves nothing behind. */
class writer : public detail::writing<coffer_writer, coffer_writer_free, coffer_writer_write, coffer_writer_copy,
                                      coffer_writer_finish>
{
public:
    writer(const std::string &path, header declared, const coffer_writer_options *options = nullptr)
        : writing(std::move(declared), coffer_writer_open, path.c_str(), options)
    {
    }
    writer(int fd, header declared, const coffer_writer_options *options = nullptr)
        : writing(std::move(declared), coffer_writer_open_fd, fd, options)
    {
    }
    writer(span<std::byte> memory, header declared, const coffer_writer_options *options = nullptr)
        : writing(std::move(declared), coffer_writer_open_memory, memory.data(), memory.size(), options)
    {
    }
    writer(const coffer_sink &sink, header declared, const coffer_writer_options *options = nullptr)
        : writing(std::move(declared), coffer_writer_open_sink, &sink, options)
    {
    }
};

/* A model being written, as many files as it takes and their index. One that goes away before finish() leaves the old
 * one. */
class model_writer : public detail::writing<coffer_model_writer, coffer_model_writer_free, coffer_model_writer_write,
                                            coffer_model_writer_copy, coffer_model_writer_finish>
{
public:
    model_writer(const std::string &path, header declared, const coffer_model_writer_options *options = nullptr)
        : writing(std::move(declared), coffer_model_writer_open, path.c_str(), options)
    {
    }

    /* The plan: how many files, the name of each, and which one tensor `i` of the declaration goes to. */
    std::size_t shard_count() const noexcept { return coffer_model_writer_shard_count(get()); }
    std::string_view name(std::size_t shard) const noexcept
    {
        const char *name = coffer_model_writer_shard_name(get(), shard);
        return name == nullptr ? std::string_view() : name;
    }
    std::size_t shard_of(std::size_t i) const noexcept { return coffer_model_writer_shard_of(get(), i); }
};

/* ---- Editing ----------------------------------------------------------------------------------------------------- */

/* A file of a model, and whether it is there. */
struct listed_file {
    std::string path;
    bool exists;
};
namespace detail
{
/* No exception may pass through the library: what cannot be kept ends the listing. */
inline int keep_listed(void *ctx, const char *name, bool exists)
{
    try {
        static_cast<std::vector<listed_file> *>(ctx)->push_back({ name, exists });
        return 0;
    } catch (...) {
        return 1;
    }
}
} // namespace detail

/* The files of the model that an index, a folder or one of its files names, without opening them. */
inline std::vector<listed_file> list_files(const std::string &path)
{
    std::vector<listed_file> files;
    detail::call(coffer_list_files, path.c_str(), nullptr, detail::keep_listed, static_cast<void *>(&files));
    return files;
}
/* All files of a repository of the Hub, or of a folder of it. */
inline std::vector<listed_file> list_repository(const std::string &url, const coffer_open_options *options = nullptr)
{
    std::vector<listed_file> files;
    detail::call(coffer_list_repository, url.c_str(), options, detail::keep_listed, static_cast<void *>(&files));
    return files;
}

/* A key of the metadata, and its new value; std::nullopt removes the key. */
using edit = std::pair<std::string_view, std::optional<std::string_view>>;

/* Changes the metadata of a file:
       cofferpp::edit_metadata("m.safetensors", { { "license", "mit" }, { "draft", std::nullopt } }); */
inline coffer_edit_way edit_metadata(const std::string &path, span<const edit> edits,
                                     const coffer_edit_options *options = nullptr)
{
    std::vector<coffer_edit> all;
    for (const auto &[key, value] : edits) {
        all.push_back({ detail::present(key), key.size(), detail::present(value), value ? value->size() : 0 });
    }
    coffer_edit_way way{};
    detail::call(coffer_edit_metadata, path.c_str(), all.data(), all.size(), options, &way);
    return way;
}
inline coffer_edit_way edit_metadata(const std::string &path, std::initializer_list<edit> edits,
                                     const coffer_edit_options *options = nullptr)
{
    return edit_metadata(path, span<const edit>(edits.begin(), edits.size()), options);
}
inline coffer_edit_way record_digests(const std::string &path, coffer_algorithm algorithm,
                                      const coffer_edit_options *options = nullptr)
{
    coffer_edit_way way{};
    detail::call(coffer_record_digests, path.c_str(), algorithm, options, &way);
    return way;
}
/* In the index of a model, what follows from the digests that its files record. */
inline coffer_edit_way record_content(const std::string &path, const coffer_edit_options *options = nullptr)
{
    coffer_edit_way way{};
    detail::call(coffer_record_content, path.c_str(), options, &way);
    return way;
}
/* Gives the new file that is open in `fd` the rights of the one whose place it is to take. */
inline void take_rights(int fd, const std::string &path)
{
    detail::call(coffer_take_rights, fd, path.c_str());
}
/* Finishes what an interrupted edit, or an interrupted model_writer, left. */
inline void recover(const std::string &path, const coffer_edit_options *options = nullptr)
{
    detail::call(coffer_recover, path.c_str(), options);
}
/* Fixes a file that cannot be opened though all of its tensors are there; with `dry_run` says what there is to fix. */
inline coffer_fixed_file fix_file(const std::string &path, bool dry_run = false,
                                  const coffer_edit_options *options = nullptr)
{
    coffer_fixed_file fixed = COFFER_FIXED_FILE_INIT;
    detail::call(coffer_fix_file, path.c_str(), options, dry_run, &fixed);
    return fixed;
}
/* Writes or fixes the index of a sharded model, from their headers; with `dry_run` says what it would be. */
inline coffer_fixed_index fix_index(const std::string &path, bool dry_run = false,
                                    const coffer_edit_options *options = nullptr)
{
    coffer_fixed_index fixed = COFFER_FIXED_INDEX_INIT;
    detail::call(coffer_fix_index, path.c_str(), options, dry_run, &fixed);
    return fixed;
}

/* ---- Adapters ---------------------------------------------------------------------------------------------------- */

/* An adapter of low rank, opened, to be merged: const coffer_adapter added[] = { { adapter.get(), 1 } };
   rewrite::merge_lora(base, added, &options).run(); */
class lora
{
public:
    explicit lora(const std::string &path, const coffer_lora_options *options = nullptr,
                  const coffer_open_options *open = nullptr)
        : self_(detail::make(coffer_lora_open, path.c_str(), open, options))
    {
    }
    coffer_lora *get() const noexcept { return self_.get(); }

private:
    detail::handle<coffer_lora, coffer_lora_close> self_;
};

/* The quantised layers of a model, which must outlive it. `config` is the text of a config.json; nullptr: that next to
   the model. */
class quantised
{
public:
    explicit quantised(const model &source, const char *config = nullptr, std::size_t config_len = 0)
        : self_(detail::make(coffer_quantised_open, source.get(), config, config_len))
    {
    }

    std::size_t size() const noexcept { return coffer_quantised_count(get()); }
    /* Layer `i`; nullptr when there is none of that number. */
    const coffer_quantised_layer *at(std::size_t i) const noexcept { return coffer_quantised_at(get(), i); }
    coffer_quantised *get() const noexcept { return self_.get(); }

private:
    detail::handle<coffer_quantised, coffer_quantised_close> self_;
};

/* An adapter that makes one model of another: planned when it is made, and carried out by run(). Both models must
   outlive it. */
class extraction
{
public:
    extraction(const model &base, const model &tuned, const coffer_extract_lora_options &options,
               const coffer_read_options *reading = nullptr)
        : self_(detail::make(coffer_extract_lora_plan, base.get(), tuned.get(), &options, reading))
    {
    }

    std::size_t size() const noexcept { return coffer_extraction_count(get()); }
    /* What becomes of one of the tensors that differ; nullptr when there is none of that number. */
    const coffer_extracted *at(std::size_t i) const noexcept { return coffer_extraction_at(get(), i); }
    void run(const std::string &folder, const coffer_writer_options *writing = nullptr,
             const coffer_read_options *reading = nullptr)
    {
        detail::call(coffer_extract_lora_run, get(), folder.c_str(), writing, reading);
    }

    coffer_extraction *get() const noexcept { return self_.get(); }

private:
    detail::handle<coffer_extraction, coffer_extraction_free> self_;
};

/* An adapter that does what several do together: planned when it is made, and carried out by run(). They must outlive
   it. */
class addition
{
public:
    explicit addition(span<const coffer_adapter> adapters, const coffer_add_lora_options *options = nullptr)
        : self_(detail::make(coffer_add_lora_plan, adapters.data(), adapters.size(), options))
    {
    }

    std::size_t size() const noexcept { return coffer_addition_count(get()); }
    /* One of its modules; nullptr when there is none of that number. */
    const coffer_added *at(std::size_t i) const noexcept { return coffer_addition_at(get(), i); }
    bool is_folder() const noexcept { return coffer_addition_is_folder(get()); }
    void run(const std::string &path, const coffer_writer_options *writing = nullptr,
             const coffer_read_options *reading = nullptr)
    {
        detail::call(coffer_add_lora_run, get(), path.c_str(), writing, reading);
    }

    coffer_addition *get() const noexcept { return self_.get(); }

private:
    detail::handle<coffer_addition, coffer_addition_free> self_;
};

/* ---- Companions -------------------------------------------------------------------------------------------------- */

/* The files next to a model that go with it, read into memory: what the options of rewrites and writers take. */
class companions
{
public:
    explicit companions(const model &of) : self_(detail::make(coffer_companions_read, of.get(), nullptr)) {}
    /* Those in a folder, or next to a file, on this machine. */
    explicit companions(const std::string &path) : self_(detail::make(coffer_companions_read, nullptr, path.c_str())) {}

    /* One of them; nullptr when there is none of that number. */
    const coffer_companion *at(std::size_t i) const noexcept { return coffer_companions_at(self_.get(), i); }

private:
    detail::handle<coffer_companions, coffer_companions_free> self_;
};

/* ---- Rewriting
   ------------------------------------------------------------------------------------------------------- */

/* A model that is to be written again: planned when it is made, and carried out by run(). The model and all that the
   options point to must outlive it: const coffer_rewrite_rule rules[] = { { COFFER_REWRITE_CAST, COFFER_BF16, "*",
   nullptr } }; coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT; options.rules = rules; options.rule_count
   = 1; cofferpp::rewrite(file, &options).run(); */
class rewrite
{
public:
    explicit rewrite(const model &source, const coffer_rewrite_options *options = nullptr)
        : self_(detail::make(coffer_rewrite_plan, source.get(), options))
    {
    }

    const coffer_rewrite_summary &summary() const noexcept { return *coffer_rewrite_summarize(get()); }
    /* The same with adapters that are added, which must outlive it, too. */
    static rewrite merge_lora(const model &base, span<const coffer_adapter> adapters,
                              const coffer_rewrite_options *options = nullptr,
                              const coffer_merge_lora_options *merging = nullptr)
    {
        return rewrite(
            detail::make(coffer_merge_lora_plan, base.get(), adapters.data(), adapters.size(), merging, options));
    }
    /* The first of some models with averages of all of them, which must outlive it, too. */
    static rewrite average(span<const coffer *const> models, const coffer_average_options *averaging = nullptr,
                           const coffer_rewrite_options *options = nullptr)
    {
        return rewrite(detail::make(coffer_average_plan, models.data(), models.size(), averaging, options));
    }
    /* A quantised model with each of its layers as one tensor of floats. */
    static rewrite dequantize(const model &source, const coffer_dequantize_options *dequantizing = nullptr,
                              const coffer_rewrite_options *options = nullptr)
    {
        return rewrite(detail::make(coffer_dequantize_plan, source.get(), dequantizing, options));
    }
    /* What becomes of tensor `i` of the model; nullptr when there is none of that number. */
    const coffer_rewrite_change *at(std::size_t i) const noexcept { return coffer_rewrite_at(get(), i); }
    void run(const coffer_read_options *options = nullptr) { detail::call(coffer_rewrite_run, get(), options); }
    /* What comes before the first byte, and nothing more: for one who asks first. */
    void check(const coffer_read_options *options = nullptr) { detail::call(coffer_rewrite_check, get(), options); }

    /* Update `k` of what adapters do to tensor `i`; nullptr when there are no more. */
    const coffer_lora_update *update(std::size_t i, std::size_t k) const noexcept
    {
        return coffer_merge_lora_at(get(), i, k);
    }

    coffer_rewrite *get() const noexcept { return self_.get(); }

private:
    explicit rewrite(coffer_rewrite *planned) noexcept : self_(planned) {}

    detail::handle<coffer_rewrite, coffer_rewrite_free> self_;
};

/* ---- Files of other programs ------------------------------------------------------------------------------------- */

/* A file that is to be converted, as bytes, and those next to it. */
class input
{
public:
    explicit input(const std::string &path, const coffer_open_options *options = nullptr)
        : self_(detail::make(coffer_input_open, path.c_str(), options))
    {
    }
    explicit input(const coffer_input_functions &functions)
        : self_(detail::make(coffer_input_open_functions, &functions, nullptr))
    {
    }

    std::uint64_t size(std::uint32_t file = 0) const noexcept { return coffer_input_size(get(), file); }
    std::uint64_t bytes_read() const noexcept { return coffer_input_bytes_read(get()); }
    /* The number of a file next to it. */
    std::uint32_t beside(std::string_view name)
    {
        std::uint32_t file = 0;
        detail::call(coffer_input_beside, get(), detail::present(name), name.size(), &file, nullptr);
        return file;
    }
    void read(std::uint32_t file, std::uint64_t offset, span<std::byte> to)
    {
        detail::call(coffer_input_read, get(), file, offset, to.data(), to.size());
    }

    coffer_input *get() const noexcept { return self_.get(); }
    /* The caller frees it. */
    coffer_input *release() noexcept { return self_.release(); }

private:
    detail::handle<coffer_input, coffer_input_free> self_;
};

/* What such a file holds, and what becomes of it. The input must outlive it:
       cofferpp::input file("pytorch_model.bin");
       cofferpp::imported(file).write("model.safetensors"); */
class imported
{
public:
    explicit imported(const input &from, const coffer_import_options *options = nullptr)
        : self_(detail::make(coffer_import_open, from.get(), options))
    {
    }
    /* One from the bytes that save() gave, perhaps in another process. */
    imported(const input &from, span<const std::byte> bytes, const coffer_import_options *options = nullptr)
        : self_(detail::make(coffer_import_load, from.get(), bytes.data(), bytes.size(), options))
    {
    }

    /* Adds what an import of another input has; that input must outlive this one. */
    void add(const imported &more) { detail::call(coffer_import_add, get(), more.get()); }

    const coffer_import_summary &summary() const noexcept { return *coffer_import_summarize(get()); }
    /* Tensor or finding `i`; nullptr when there is none of that number. Borrowed until the next call. */
    const coffer_import_tensor *at(std::size_t i) const noexcept { return coffer_import_at(get(), i); }
    const coffer_import_finding *finding(std::size_t i) const noexcept { return coffer_import_finding_at(get(), i); }
    /* It as bytes, borrowed. */
    span<const std::byte> save()
    {
        const void *bytes = nullptr;
        std::size_t size = 0;
        detail::call(coffer_import_save, get(), &bytes, &size);
        return { static_cast<const std::byte *>(bytes), size };
    }

    void write(const std::string &output, const coffer_import_write_options *options = nullptr,
               const coffer_read_options *reading = nullptr)
    {
        detail::call(coffer_import_write, get(), output.c_str(), options, reading);
    }
    void declare(header &to) const { detail::call(coffer_import_declare, get(), to.get()); }
    void carry(writer &to, bool unchecked = false, const coffer_read_options *reading = nullptr)
    {
        detail::call(coffer_import_carry, get(), to.get(), unchecked, reading);
    }
    void carry(model_writer &to, bool unchecked = false, const coffer_read_options *reading = nullptr)
    {
        detail::call(coffer_import_carry_model, get(), to.get(), unchecked, reading);
    }
    void verify(const model &written, const coffer_read_options *reading = nullptr)
    {
        detail::call(coffer_import_verify, get(), written.get(), reading);
    }

    coffer_import *get() const noexcept { return self_.get(); }
    /* The caller frees it. */
    coffer_import *release() noexcept { return self_.release(); }

private:
    detail::handle<coffer_import, coffer_import_free> self_;
};

inline model::model(input &&from, imported &&of, const coffer_open_options *options)
    : self_(detail::make(coffer_open_import, (static_cast<void>(from.release()), of.release()), options))
{
}

/* ---- The way back ------------------------------------------------------------------------------------------------ */

/* Writes a model as a file of another program: to a path, a descriptor, or the caller's own place. */
inline void export_to(const model &from, coffer_export_format format, const std::string &path,
                      const coffer_export_options *options = nullptr, const coffer_read_options *reading = nullptr)
{
    detail::call(coffer_export, from.get(), format, path.c_str(), options, reading);
}
inline void export_to_fd(const model &from, coffer_export_format format, int fd,
                         const coffer_export_options *options = nullptr, const coffer_read_options *reading = nullptr)
{
    detail::call(coffer_export_fd, from.get(), format, fd, options, reading);
}
inline void export_to_sink(const model &from, coffer_export_format format, const coffer_sink &sink,
                           const coffer_export_options *options = nullptr, const coffer_read_options *reading = nullptr)
{
    detail::call(coffer_export_sink, from.get(), format, &sink, options, reading);
}
/* Bytes of the file that would be written. */
inline std::uint64_t export_size(const model &from, coffer_export_format format,
                                 const coffer_export_options *options = nullptr)
{
    std::uint64_t size = 0;
    detail::call(coffer_export_size, from.get(), format, options, &size);
    return size;
}

/* ---- Manifests --------------------------------------------------------------------------------------------------- */

/* Digests of files, kept next to them. */
class manifest
{
public:
    /* An empty one, and what statements call the model. */
    explicit manifest(const std::string &model) : self_(detail::make(coffer_manifest_new, model.c_str(), nullptr)) {}
    /* Reads one. With a public key, one that is signed by it. */
    static manifest parse(std::string_view text, std::optional<std::string_view> key = std::nullopt)
    {
        return manifest(detail::make(coffer_manifest_parse, text.data(), text.size(), detail::present(key),
                                     key ? key->size() : 0, nullptr));
    }

    void add(const std::string &name, coffer_algorithm algorithm, span<const std::uint8_t> digest)
    {
        detail::call(coffer_manifest_add, get(), name.c_str(), algorithm, digest.data(), digest.size());
    }
    void ignore(const std::string &name) { detail::call(coffer_manifest_ignore, get(), name.c_str()); }
    void set_follows_links(bool follows) noexcept { coffer_manifest_set_follows_links(get(), follows); }
    /* Its text, borrowed until the next call. With a private key, signed. */
    std::string_view write(coffer_manifest_format format, std::optional<std::string_view> key = std::nullopt)
    {
        const char *text = nullptr;
        std::size_t length = 0;
        detail::call(coffer_manifest_write, get(), format, detail::present(key), key ? key->size() : 0, &text, &length);
        return { text, length };
    }

    std::size_t size() const noexcept { return coffer_manifest_count(get()); }
    bool empty() const noexcept { return size() == 0; }
    /* Entry `i`, below size(), in the order they were read or added. */
    const coffer_manifest_entry &operator[](std::size_t i) const noexcept { return *coffer_manifest_at(get(), i); }
    coffer_manifest_format format() const noexcept { return coffer_manifest_format_of(get()); }
    bool ignores(const std::string &name) const noexcept { return coffer_manifest_ignores(get(), name.c_str()); }
    bool follows_links() const noexcept { return coffer_manifest_follows_links(get()); }

    coffer_manifest *get() const noexcept { return self_.get(); }

private:
    explicit manifest(coffer_manifest *read) noexcept : self_(read) {}

    detail::handle<coffer_manifest, coffer_manifest_free> self_;
};

/* ---- What is wrong ----------------------------------------------------------------------------------------------- */

/* What was found about a model and all that lies around it. */
class diagnosis
{
public:
    explicit diagnosis(const std::string &path, const coffer_doctor_options *options = nullptr)
        : self_(detail::make(coffer_doctor, path.c_str(), options))
    {
    }

    const coffer_doctor_summary &summary() const noexcept { return *coffer_diagnosis_summarize(get()); }
    /* Finding or model `i`; nullptr when there is none of that number. Borrowed. */
    const coffer_doctor_finding *finding(std::size_t i) const noexcept { return coffer_diagnosis_finding_at(get(), i); }
    const coffer_doctor_model *at(std::size_t i) const noexcept { return coffer_diagnosis_model_at(get(), i); }

    coffer_diagnosis *get() const noexcept { return self_.get(); }

private:
    detail::handle<coffer_diagnosis, coffer_diagnosis_free> self_;
};

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

/* A memory space: "cpu", "cuda:0", "hip:1". */
class device
{
public:
    explicit device(const std::string &name) : self_(detail::make(coffer_device_open, name.c_str(), nullptr)) {}

    coffer_device_info describe() const
    {
        coffer_device_info info{};
        info.struct_size = sizeof info;
        detail::call(coffer_device_describe, get(), &info);
        return info;
    }
    /* Memory of the device, the caller's to release() with its size. */
    std::uint64_t allocate(std::uint64_t size)
    {
        std::uint64_t address = 0;
        detail::call(coffer_device_allocate, get(), size, &address);
        return address;
    }
    void release(std::uint64_t address, std::uint64_t size) noexcept
    {
        coffer_device_memory_free(get(), address, size);
    }
    void read(std::uint64_t address, span<std::byte> to) const
    {
        detail::call(coffer_device_read, get(), address, to.data(), static_cast<std::uint64_t>(to.size()));
    }

    coffer_device *get() const noexcept { return self_.get(); }

private:
    detail::handle<coffer_device, coffer_device_close> self_;
};

/* Something that loading may use, or why it cannot. */
struct facility {
    std::string name;
    bool usable;
    std::string detail;
    std::string advice;
};

/* What this machine has for loading, and, of a path, its file system. */
inline std::vector<facility> list_facilities(const char *path = nullptr)
{
    std::vector<facility> found;
    const auto keep = [](void *ctx, const coffer_facility *one) -> int {
        try {
            static_cast<std::vector<facility> *>(ctx)->push_back({ one->name, one->usable, one->detail, one->advice });
            return 0;
        } catch (...) {
            return 1;
        }
    };
    detail::call(coffer_list_facilities, path, nullptr, keep, static_cast<void *>(&found));
    return found;
}

/* What is wanted of a model, and where it goes. The model must outlive it. */
class plan
{
public:
    explicit plan(const model &source) : self_(detail::make(coffer_plan_new, source.get(), nullptr)) {}

    /* A tensor or a slice of it, to a destination, or to memory of the load. Returns the item's number, as the others
       do. */
    std::size_t add(const tensor &wanted, const slice &part = {}, const coffer_destination *destination = nullptr)
    {
        std::size_t item = 0;
        const auto indices = part.indices();
        detail::call(coffer_plan_add, get(), wanted.get(), indices.data(), indices.size(), destination, &item);
        return item;
    }
    /* The same to memory of the load on a device. */
    std::size_t add(const tensor &wanted, const slice &part, const device &on)
    {
        std::size_t item = 0;
        const auto indices = part.indices();
        detail::call(coffer_plan_add_on, get(), wanted.get(), indices.data(), indices.size(), on.get(), &item);
        return item;
    }
    /* What rank `rank` of `world` takes along a dimension, of one part or of several. */
    std::size_t add_shard(const tensor &wanted, std::size_t dim, span<const std::uint64_t> parts, std::uint32_t rank,
                          std::uint32_t world, const coffer_destination *destination = nullptr,
                          const device *on = nullptr)
    {
        std::size_t item = 0;
        detail::call(coffer_plan_add_rank, get(), wanted.get(), dim, parts.data(), parts.size(), rank, world,
                     destination, on == nullptr ? nullptr : on->get(), &item);
        return item;
    }
    /* All tensors, as a rank takes them: by rules, or by the names of the usual transformers. */
    void add_all(std::uint32_t rank = 0, std::uint32_t world = 1, const device *on = nullptr)
    {
        detail::call(coffer_plan_add_all, get(), nullptr, std::size_t{ 0 }, rank, world,
                     on == nullptr ? nullptr : on->get());
    }
    void add_all(span<const coffer_split_rule> rules, std::uint32_t rank, std::uint32_t world,
                 const device *on = nullptr)
    {
        detail::call(coffer_plan_add_all, get(), rules.data(), rules.size(), rank, world,
                     on == nullptr ? nullptr : on->get());
    }

    std::size_t size() const noexcept { return coffer_plan_count(get()); }
    bool empty() const noexcept { return size() == 0; }
    /* Item `i`, below size(). */
    coffer_plan_item operator[](std::size_t i) const noexcept
    {
        coffer_plan_item item{};
        (void)coffer_plan_at(get(), i, &item);
        return item;
    }
    /* What it costs, of one shard or of all. */
    coffer_plan_cost cost(std::size_t shard = SIZE_MAX) const
    {
        coffer_plan_cost cost{};
        cost.struct_size = sizeof cost;
        detail::call(coffer_plan_cost_of, get(), shard, &cost);
        return cost;
    }
    /* How a load that began now would read a shard, or all: 1 << coffer_engine for each engine. */
    std::uint32_t engines(std::size_t shard = SIZE_MAX) const
    {
        std::uint32_t engines = 0;
        detail::call(coffer_plan_engines_of, get(), shard, &engines);
        return engines;
    }

    coffer_plan *get() const noexcept { return self_.get(); }

private:
    detail::handle<coffer_plan, coffer_plan_free> self_;
};

/* What bytes pass through on their way, from load to load. */
class staging
{
public:
    explicit staging(const coffer_staging_options *options = nullptr) : self_(detail::make(coffer_staging_new, options))
    {
    }

    coffer_staging *get() const noexcept { return self_.get(); }

private:
    detail::handle<coffer_staging, coffer_staging_free> self_;
};

/* An item that was handed out, and its memory, which lives as long as this. */
class loaded
{
public:
    loaded() noexcept : fields_{} {}
    explicit loaded(const coffer_loaded &fields) noexcept : fields_(fields), memory_(fields.memory) {}

    std::size_t item() const noexcept { return fields_.item; }
    std::uint64_t address() const noexcept { return fields_.address; }
    std::uint64_t size() const noexcept { return fields_.size; }
    bool verified() const noexcept { return fields_.verified; }
    /* The bytes, of an item in host memory. */
    span<std::byte> bytes() const
    {
        return { reinterpret_cast<std::byte *>(static_cast<std::uintptr_t>(fields_.address)),
                 detail::memory_size(fields_.size) };
    }
    const coffer_loaded &fields() const noexcept { return fields_; }

private:
    coffer_loaded fields_;
    detail::handle<coffer_memory, coffer_memory_free> memory_;
};

/* A plan that is carried out in the background. The plan, its model and the staging buffer must outlive it:
       cofferpp::load loading(plan);
       while (auto item = loading.next()) use(item->bytes()); */
class load
{
public:
    explicit load(const plan &wanted, const staging *through = nullptr, const coffer_load_options *options = nullptr)
        : self_(detail::make(coffer_load_start, wanted.get(), through == nullptr ? nullptr : through->get(), options))
    {
    }

    /* The next item that is ready; none after the last. */
    std::optional<loaded> next()
    {
        coffer_loaded item{};
        detail::call(coffer_load_next, get(), UINT64_MAX, &item);
        return item.item == SIZE_MAX ? std::nullopt : std::optional<loaded>(loaded(item));
    }
    loaded take(std::size_t number)
    {
        coffer_loaded item{};
        detail::call(coffer_load_take, get(), number, UINT64_MAX, &item);
        return loaded(item);
    }
    void wait() { detail::call(coffer_load_wait, get(), UINT64_MAX); }
    void cancel() noexcept { coffer_load_cancel(get()); }
    coffer_load_stats stats() const noexcept
    {
        coffer_load_stats stats{};
        stats.struct_size = sizeof stats;
        coffer_load_stats_of(get(), &stats);
        return stats;
    }

    coffer_load *get() const noexcept { return self_.get(); }

private:
    detail::handle<coffer_load, coffer_load_free> self_;
};

/* Who reads what where several hosts load one model together. The plans, one for each host, must outlive it. */
class exchange
{
public:
    explicit exchange(span<const coffer_plan *const> plans, const coffer_exchange_options *options = nullptr)
        : self_(detail::make(coffer_exchange_new, plans.data(), static_cast<std::uint32_t>(plans.size()), options))
    {
    }

    std::uint64_t rounds() const noexcept { return coffer_exchange_rounds(get()); }
    /* Bytes that one host sends to another in a round. */
    std::uint64_t bytes(std::uint64_t round, std::uint32_t from, std::uint32_t to) const noexcept
    {
        return coffer_exchange_size(get(), round, from, to);
    }
    std::size_t size() const noexcept { return coffer_exchange_count(get()); }
    /* A chunk that one host reads; `number` is below size(). */
    coffer_exchange_chunk operator[](std::size_t number) const noexcept
    {
        coffer_exchange_chunk chunk{};
        coffer_exchange_at(get(), number, &chunk);
        return chunk;
    }
    /* Loads `own`, this host's plan, together with the other hosts, and returns its items. */
    std::vector<loaded> run(const plan &own, const coffer_transport &transport,
                            const coffer_exchange_run_options *options = nullptr) const
    {
        std::vector<coffer_loaded> items(own.size());
        detail::call(coffer_exchange_run, get(), &transport, options, items.data());
        return std::vector<loaded>(items.begin(), items.end());
    }
    /* In place of run, where this host cannot take part: tells the others why. */
    static void refuse(const coffer_transport &transport, const coffer_error &why)
    {
        detail::call(coffer_exchange_refuse, &transport, &why);
    }

    coffer_exchange *get() const noexcept { return self_.get(); }

private:
    detail::handle<coffer_exchange, coffer_exchange_free> self_;
};

/* A model that is held in memory for processes that load it later. */
class cache_server
{
public:
    explicit cache_server(const std::string &path, coffer_progress progress = nullptr, void *progress_ctx = nullptr)
        : self_(detail::make(coffer_cache_server_new, path.c_str(), nullptr, progress, progress_ctx))
    {
    }

    coffer_cache_server *get() const noexcept { return self_.get(); }

private:
    detail::handle<coffer_cache_server, coffer_cache_server_free> self_;
};

} // namespace cofferpp

#endif
