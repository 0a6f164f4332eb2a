/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer.hpp - coffer.h for C++17 and later: objects that release themselves, spans, and exceptions.
 *
 * All of it is inline and none of it has a thought of its own: what a function does, costs and refuses is said in coffer.h, at
 * the function of the same name. Where C takes a `coffer_*` struct of options, so does C++; `nullptr` stands for the defaults.
 *
 *   - Failure: every function that can fail throws cofferpp::error, which carries all that a coffer_error has. Nothing else is
 *     thrown but std::bad_alloc. An object whose constructor threw left nothing behind.
 *   - Ownership: model, header, writer and buffer own what they hold; they can be moved and not copied, and one that was moved
 *     from can only be assigned to or go. A tensor and every span are borrowed, from the model that they came from, which may be
 *     moved meanwhile, but must outlive them.
 *   - Threads: as in coffer.h. Callbacks given in options or in a coffer_source must not throw.
 *   - Numbers: the bytes of a file are little-endian. Functions that take or give numbers of a type T exist where the machine
 *     is, too; they refuse a T that is not the tensor's dtype, but for std::byte, char and unsigned char, which are any dtype's
 *     bytes. tensor::decode works everywhere and with every dtype.
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

/* ---- Spans ----------------------------------------------------------------------------------------------------------- */

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

/* ---- Failing --------------------------------------------------------------------------------------------------------- */

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

namespace detail
{

inline void check(coffer_status status, const coffer_error &err)
{
    if (status != COFFER_OK) {
        throw error(err);
    }
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

/* Refuses a tensor whose elements are not of type T. */
template <class T> void require_dtype(const coffer_tensor *tensor)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    static_assert(sizeof(T) == 1, "the file's numbers are little-endian, this machine's are not: use tensor::decode");
#endif
    constexpr coffer_dtype wanted = dtype_of<T>();
    if (wanted != COFFER_UNKNOWN_DTYPE && tensor->dtype != wanted) {
        fail(COFFER_ERR_ARGUMENT,
             std::string("the tensor holds ") + coffer_tensor_dtype_name(tensor) + ", not " + coffer_dtype_name(wanted),
             tensor);
    }
}

} // namespace detail

/* ---- Memory and slices ----------------------------------------------------------------------------------------------- */

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
        detail::check(status, err);
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

/* ---- Models ---------------------------------------------------------------------------------------------------------- */

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

    /* The bytes where they lie, without a copy. */
    span<const std::byte> data() const
    {
        coffer_error err;
        const void *bytes = coffer_data(model_, self_, &err);
        if (bytes == nullptr) {
            throw error(err);
        }
        return { static_cast<const std::byte *>(bytes), detail::memory_size(self_->size) };
    }
    /* The same as numbers. COFFER_ERR_UNSUPPORTED where they are not aligned, as files of other programs may have them;
       values() copies and does not mind. */
    template <class T> span<const T> as() const
    {
        detail::require_dtype<T>(self_);
        const auto bytes = data();
        if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(T) != 0) {
            detail::fail(COFFER_ERR_UNSUPPORTED, "the tensor is not aligned in its file: read a copy of it", self_);
        }
        return { reinterpret_cast<const T *>(bytes.data()), bytes.size() / sizeof(T) };
    }

    /* Reads into memory of exactly the right size. */
    void read(span<std::byte> place, const coffer_read_options *options = nullptr) const
    {
        coffer_error err;
        detail::check(coffer_read(model_, self_, place.data(), place.size(), options, &err), err);
    }
    void read(const slice &part, span<std::byte> place, const coffer_read_options *options = nullptr) const
    {
        coffer_error err;
        const auto indices = part.indices();
        detail::check(
            coffer_read_slice(model_, self_, indices.data(), indices.size(), place.data(), place.size(), options, &err),
            err);
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
    /* Reads into a vector of numbers, which is the most convenient way and not the fastest: vectors are filled twice. */
    template <class T> std::vector<T> values() const { return values<T>(slice{}); }
    template <class T> std::vector<T> values(const slice &part) const
    {
        detail::require_dtype<T>(self_);
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
    void plan(const slice &part, std::uint64_t *shape, std::size_t *rank, std::uint64_t *size) const
    {
        coffer_error err;
        const auto indices = part.indices();
        detail::check(coffer_slice_shape(self_, indices.data(), indices.size(), shape, rank, size, &err), err);
    }

    const coffer *model_;
    const coffer_tensor *self_;
};

/* An opened model. */
class model
{
public:
    explicit model(const std::string &path, const coffer_open_options *options = nullptr)
    {
        open([&](coffer **out, coffer_error *err) { return coffer_open(out, path.c_str(), options, err); });
    }
    /* A file that is already in memory; borrowed. */
    explicit model(span<const std::byte> bytes, const coffer_open_options *options = nullptr)
    {
        open([&](coffer **out, coffer_error *err) {
            return coffer_open_memory(out, bytes.data(), bytes.size(), options, err);
        });
    }
    /* A range of an open file, to its end if not said otherwise. */
    explicit model(int fd, std::uint64_t offset = 0, std::uint64_t size = UINT64_MAX,
                   const coffer_open_options *options = nullptr)
    {
        open([&](coffer **out, coffer_error *err) { return coffer_open_fd(out, fd, offset, size, options, err); });
    }
    explicit model(const coffer_source &source, const coffer_open_options *options = nullptr)
    {
        open([&](coffer **out, coffer_error *err) { return coffer_open_source(out, &source, options, err); });
    }

    std::size_t size() const noexcept { return coffer_count(get()); }
    bool empty() const noexcept { return size() == 0; }
    /* Tensor `i`, below size(), in the order of their place in the file. */
    tensor operator[](std::size_t i) const & { return { get(), coffer_at(get(), i) }; }
    std::optional<tensor> find(std::string_view name) const &
    {
        const coffer_tensor *found = coffer_find_n(get(), name.data(), name.size());
        return found == nullptr ? std::nullopt : std::optional<tensor>(tensor(get(), found));
    }
    /* The tensor of that name; COFFER_ERR_NO_TENSOR when there is none. */
    tensor at(std::string_view name) const &
    {
        const std::optional<tensor> found = find(name);
        if (!found) {
            coffer_tensor wanted{};
            wanted.name = name.data();
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

    std::size_t shard_count() const noexcept { return coffer_shard_count(get()); }
    /* A shard's file as it was given, or as the index names it; "" when there is none. */
    std::string_view path(std::size_t shard = 0) const noexcept { return coffer_shard_path(get(), shard); }
    /* What the index, if there is one, has as its metadata: a JSON object, or "". */
    std::optional<std::string_view> index_metadata() const noexcept
    {
        std::size_t length = 0;
        const char *text = coffer_index_metadata(get(), &length);
        return text == nullptr ? std::nullopt : std::optional<std::string_view>(std::string_view(text, length));
    }
    /* The value of a key in the metadata of a shard. */
    std::optional<std::string_view> metadata(std::string_view key, std::size_t shard = 0) const
    {
        std::size_t length = 0;
        const char *value = coffer_table_metadata_get(table(shard), key.data(), key.size(), &length);
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
        coffer_error err;
        detail::check(coffer_read_many(get(), targets.data(), targets.size(), options, &err), err);
    }

    coffer *get() const noexcept { return self_.get(); }

private:
    template <class Open> void open(Open call)
    {
        coffer *opened = nullptr;
        coffer_error err;
        detail::check(call(&opened, &err), err);
        self_.reset(opened);
    }
    const coffer_table *table(std::size_t shard) const
    {
        const coffer_table *found = coffer_shard_table(get(), shard);
        if (found == nullptr) {
            detail::fail(COFFER_ERR_ARGUMENT, "the model has no shard of this number");
        }
        return found;
    }

    detail::handle<coffer, coffer_close> self_;
};

/* ---- Writing --------------------------------------------------------------------------------------------------------- */

/* A header under construction. */
class header
{
public:
    header()
    {
        coffer_header *made = nullptr;
        coffer_error err;
        detail::check(coffer_header_new(&made, coffer_libc_allocator(), &err), err);
        self_.reset(made);
    }

    /* Declares a tensor and returns its number. */
    std::size_t add(std::string_view name, coffer_dtype dtype, span<const std::uint64_t> shape)
    {
        coffer_error err;
        detail::check(coffer_header_add(get(), name.data(), name.size(), dtype, shape.data(), shape.size(), &err), err);
        return size() - 1;
    }
    std::size_t add(std::string_view name, coffer_dtype dtype, std::initializer_list<std::uint64_t> shape)
    {
        return add(name, dtype, span<const std::uint64_t>(shape.begin(), shape.size()));
    }
    void set_metadata(std::string_view key, std::string_view value)
    {
        coffer_error err;
        detail::check(coffer_header_set_metadata(get(), key.data(), key.size(), value.data(), value.size(), &err), err);
    }
    /* Lays the file out; returns its first bytes, borrowed. Nothing can be declared afterwards. */
    span<const std::byte> build(const coffer_header_options *options = nullptr)
    {
        const void *bytes = nullptr;
        std::uint64_t size = 0;
        coffer_error err;
        detail::check(coffer_header_build(get(), options, &bytes, &size, nullptr, &err), err);
        return { static_cast<const std::byte *>(bytes), detail::memory_size(size) };
    }
    std::size_t size() const noexcept { return coffer_header_count(get()); }
    /* Where tensor `i` of the declaration will be; nullptr before the header is built. */
    const coffer_tensor *at(std::size_t i) const noexcept { return coffer_header_at(get(), i); }

    coffer_header *get() const noexcept { return self_.get(); }

private:
    detail::handle<coffer_header, coffer_header_free> self_;
};

/* A file being written. One that goes away before finish() leaves nothing behind. */
class writer
{
public:
    writer(const std::string &path, header declared, const coffer_writer_options *options = nullptr)
        : header_(std::move(declared))
    {
        open([&](coffer_writer **out, coffer_error *err) {
            return coffer_writer_open(out, header_.get(), path.c_str(), options, err);
        });
    }
    writer(int fd, header declared, const coffer_writer_options *options = nullptr) : header_(std::move(declared))
    {
        open([&](coffer_writer **out, coffer_error *err) {
            return coffer_writer_open_fd(out, header_.get(), fd, options, err);
        });
    }
    writer(span<std::byte> memory, header declared, const coffer_writer_options *options = nullptr)
        : header_(std::move(declared))
    {
        open([&](coffer_writer **out, coffer_error *err) {
            return coffer_writer_open_memory(out, header_.get(), memory.data(), memory.size(), options, err);
        });
    }
    writer(const coffer_sink &sink, header declared, const coffer_writer_options *options = nullptr)
        : header_(std::move(declared))
    {
        open([&](coffer_writer **out, coffer_error *err) {
            return coffer_writer_open_sink(out, header_.get(), &sink, options, err);
        });
    }
    writer(writer &&) noexcept = default;
    /* The writer that was here goes before the header that it uses. */
    writer &operator=(writer &&other) noexcept
    {
        self_ = std::move(other.self_);
        header_ = std::move(other.header_);
        return *this;
    }

    /* Writes numbers, or bytes, of tensor `i` of the declaration, from its byte `offset` on. */
    template <class Container> void write(std::size_t i, const Container &values, std::uint64_t offset = 0)
    {
        using element = std::remove_cv_t<std::remove_pointer_t<decltype(std::data(values))>>;
        const coffer_tensor *declared = header_.at(i);
        if (declared != nullptr) { /* else the library refuses the number */
            detail::require_dtype<element>(declared);
        }
        coffer_error err;
        detail::check(
            coffer_writer_write(get(), i, offset, std::data(values), std::size(values) * sizeof(element), &err), err);
    }
    /* Publishes the file when every byte was written. */
    void finish()
    {
        coffer_error err;
        detail::check(coffer_writer_finish(get(), &err), err);
    }

    const header &declared() const noexcept { return header_; }
    coffer_writer *get() const noexcept { return self_.get(); }

private:
    template <class Open> void open(Open call)
    {
        coffer_writer *opened = nullptr;
        coffer_error err;
        detail::check(call(&opened, &err), err);
        self_.reset(opened);
    }

    header header_;
    detail::handle<coffer_writer, coffer_writer_free> self_; /* last, so that it goes first */
};

} // namespace cofferpp

#endif
